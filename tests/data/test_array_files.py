"""Folders of NumPy files, larger than memory or not."""

import numpy as np
import pytest

import fedloom as fl
from data.messages import raises
from fedloom.cli.main import main
from fedloom.errors import DataError, MissingDataError
from fedloom.on_disk import OnDisk

SETTINGS = """
data = {{ path = "{folder}" }}
partition = {{ scheme = "client", test_fraction = 0.2 }}
problem = {{ kind = "multinomial" }}
algorithm = {{ key = "fedavg", lr = 0.1 }}
run = {{ rounds = 2 }}
"""


def write(folder, **arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def features(rows=12):
    return np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)


def test_one_folder_with_owners(tmp_path):
    x, y, client = features(), np.arange(12) % 3, np.repeat(["b", "a"], 6)
    held = write(tmp_path / "test", x=x[:4], y=y[:4], client=client[:4])
    found = fl.data.load(write(tmp_path / "rows", x=x, y=y, client=client), test=held)
    assert isinstance(found.x, OnDisk) and found.name == "rows"
    clients = fl.data.partition(found, "client")
    assert clients.names == ("a", "b")
    np.testing.assert_array_equal(np.asarray(clients.train.x), np.concatenate([x[6:], x[:6]]))
    np.testing.assert_array_equal(np.sort(np.asarray(clients.test_of(1).x), 0), np.sort(x[:4], 0))


def test_a_folder_for_each_site(tmp_path):
    parts = {name: (features(5 + i), np.arange(5 + i) / 2) for i, name in enumerate(("n", "s"))}
    for name, (x, y) in parts.items():
        write(tmp_path / name, x=x, y=y)
    found = fl.data.load(tmp_path)
    assert found.labels is None and found.columns["client"].tolist() == ["n"] * 5 + ["s"] * 6
    clients = fl.data.partition(found, "client")
    np.testing.assert_array_equal(np.asarray(clients.of(1).x), parts["s"][0])


def test_bytes_with_a_height_and_a_width_are_pixels(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 2, 2), np.uint8)
    found = fl.data.load(write(tmp_path / "images", x=images, y=np.arange(6)))
    np.testing.assert_array_equal(np.asarray(found.x), np.divide(images, 255, dtype=np.float32))
    tokens = fl.data.load(write(tmp_path / "tokens", x=images.reshape(6, 4), y=np.arange(6)))
    assert tokens.x.dtype == np.uint8 and np.asarray(tokens.x).max() == images.max()


def test_a_settings_file_runs_on_rows_that_stay_on_the_disk(tmp_path, capsys):
    folder = write(tmp_path / "rows", x=features(40), y=np.arange(40) % 3, client=np.arange(40) % 4)
    (tmp_path / "run.toml").write_text(SETTINGS.format(folder=folder))
    assert main(["run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out")]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_columns_of_rows_on_the_disk_can_be_divided_and_normalised_rows_cannot(tmp_path):
    x = features()
    found = fl.data.load(write(tmp_path / "rows", x=x, y=np.arange(12) % 2))
    parties = fl.data.partition(found, "features", parties=2)
    np.testing.assert_array_equal(parties.features[1], x[:, 2:])
    with raises(DataError, "normalise", "stay on the disk"):
        fl.data.partition(found, "iid", clients=2, normalise=True)


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"x": features(), "y": np.arange(11)}, ("y.npy", "12 rows", "got 11")),
        (
            {"x": features(), "y": np.arange(12), "client": np.arange(3)},
            ("client.npy", "12 rows", "got 3"),
        ),
        ({"x": np.asfortranarray(features()), "y": np.arange(12)}, ("x.npy", "column by column")),
        ({"x": np.array(["a", "b"]), "y": np.arange(2)}, ("x.npy", "must be numbers", "<U1")),
        ({"x": np.arange(3), "y": np.arange(3)}, ("x.npy", "(rows, ...)")),
        ({"x": np.float32(3), "y": np.arange(3)}, ("x.npy", "entry for each row", "shape ()")),
        ({"x": features(), "y": np.float32(3)}, ("y.npy", "entry for each row", "shape ()")),
        (
            {"x": features(), "y": np.arange(12), "client": np.zeros((12, 2))},
            ("client.npy", "one owner for each row", "got the shape (12, 2)"),
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, arrays, parts):
    with raises(DataError, *parts):
        fl.data.load(write(tmp_path / "rows", **arrays))


def test_missing_and_damaged_files(tmp_path):
    folder = write(tmp_path / "rows", x=features())
    with raises(MissingDataError, "y.npy", "no such file"):
        fl.data.load(folder)
    with raises(MissingDataError, "x.npy and y.npy"):
        fl.data.load(write(tmp_path / "others", z=features()))
    write(folder, y=np.arange(12))
    cut = (folder / "x.npy").read_bytes()[:-20]
    (folder / "x.npy").write_bytes(cut)
    with raises(DataError, "x.npy", "np.save", "fresh copy"):
        fl.data.load(folder)
    (folder / "x.npy").write_bytes(b"nothing")
    with raises(DataError, "x.npy", "np.save"):
        fl.data.load(folder)
    np.save(folder / "x.npy", np.array([{}, {}]), allow_pickle=True)
    with raises(DataError, "x.npy", "np.save"):
        fl.data.load(folder)


@pytest.mark.parametrize("shape", ["(10**22, 8)", "(True, 3)", "(-3, 4)", "((12, 4)", "12"])
def test_a_header_that_no_array_has(tmp_path, shape):
    folder = write(tmp_path / "rows", x=features(), y=np.arange(12))
    shape = shape.replace("10**22", str(10**22))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    (folder / "x.npy").write_bytes(start + header + bytes(400))
    with raises(DataError, "x.npy", "np.save"):
        fl.data.load(folder)


def test_an_archive_under_the_name_of_an_array(tmp_path):
    folder = write(tmp_path / "rows", x=features(), y=np.arange(12))
    with (folder / "x.npy").open("wb") as file:
        np.savez(file, **{f"row{i}": row for i, row in enumerate(features())})
    with raises(DataError, "x.npy", "np.save", "not np.savez"):
        fl.data.load(folder)


def test_labels_must_be_alike_at_all_sites_and_in_test_rows(tmp_path):
    write(tmp_path / "all" / "n", x=features(), y=np.arange(12) % 2)
    write(tmp_path / "all" / "s", x=features(), y=np.zeros((12, 2), int))
    write(tmp_path / "words", x=features(), y=np.repeat(["a", "b"], 6))
    with raises(DataError, "s/y.npy", "numbers of shape ()", "all/n", "got numbers of shape (2,)"):
        fl.data.load(tmp_path / "all")
    for other, got in (("all/s", "numbers of shape (2,)"), ("words", "words of shape ()")):
        with raises(DataError, "y.npy", "numbers of shape ()", "all/n", got):
            fl.data.load(tmp_path / "all" / "n", test=tmp_path / other)


def test_sites_and_test_rows_must_be_alike(tmp_path):
    write(tmp_path / "all" / "n", x=features(), y=np.arange(12))
    write(tmp_path / "all" / "s", x=features()[:, :3], y=np.arange(12))
    with raises(DataError, "s: rows must be numbers of shape (4,)", "got numbers of shape (3,)"):
        fl.data.load(tmp_path / "all")
    with raises(DataError, "test rows must have the shape (4,)", "got (3,)"):
        fl.data.load(tmp_path / "all" / "n", test=tmp_path / "all" / "s")
