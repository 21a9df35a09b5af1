"""The files that are damaged, and who reads them."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedloom as fl
from fedloom.cli.main import main
from fedloom.errors import StaleStateError
from fedloom.exchange.site import StateFolder
from fedloom.experiments import settings
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.predicting import predict
from fedloom.federation.kits import Kit, open_kit
from fedloom.federation.people.submission import Record
from fedloom.federation.policy_file import read_policy
from fedloom.federation.server import course as server
from fedloom.measuring import checkpoint
from fedloom.preparation import SiteFiles
from fedloom.preparation.proposals import propose
from fedloom.reports.page import render
from fedloom.reports.reading import read as read_studies


class Subject(NamedTuple):
    """Files of one kind."""

    name: str
    make: Callable[[Path], None]  # writes good files into a folder
    read: Callable[[Path], object]  # reads them as a user would
    sealed: tuple[str, ...] = ()  # patterns of files with a checksum
    plain: tuple[str, ...] = ()  # patterns of files without one: people write these


SETTINGS = """
[data]
sites = "{sites}"
label = "y"
[problem]
kind = "logistic"
[algorithm]
key = "fedavg"
lr = 0.1
local_steps = 2
[run]
rounds = 4
eval_every = 2
"""


def _rows(folder: Path, kind: str) -> None:
    """Tables of three sites: two columns of numbers, one of words, gaps, and a label."""
    import polars as pl

    rng = np.random.default_rng(0)
    for site in ("a", "b", "c"):
        frame = pl.DataFrame(
            {
                "size": rng.normal(size=24).round(3),
                "age": [None if i == 5 else int(v) for i, v in enumerate(rng.integers(9, 90, 24))],
                "place": rng.choice(["north", "south, east", "west"], 24),
                "y": rng.integers(0, 2, 24),
            }
        )
        folder.mkdir(parents=True, exist_ok=True)
        write = frame.write_csv if kind == "csv" else frame.write_parquet
        write(folder / f"{site}.{kind}")


def _make_run(folder: Path) -> None:
    _rows(folder / "sites", "csv")
    file = folder / "iris.toml"
    file.write_text(SETTINGS.format(sites=folder / "sites"))
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["run", str(file), "--out", str(folder / "run")]) == 0


def _read_run(folder: Path) -> None:
    fl.load(folder / "run")
    render(read_studies([folder / "run"]))
    predict(folder / "run", folder / "sites" / "a.csv")


def _make_checkpoint(folder: Path) -> None:
    _make_run(folder)
    RunFolder(folder / "run").keep(fl.load(folder / "run"))


def _read_checkpoint(folder: Path) -> None:
    settings.read_again(folder / "run")
    RunFolder(folder / "run").read()
    checkpoint.read(folder / "run" / "checkpoint.safetensors")


def _make_server(folder: Path) -> None:
    progress = server.Checkpoint(
        round=3,
        ages={"0": [3, 0], "1": [2, 0]},
        roster={"names": ["a", "b"], "counts": [[3, 4], [5, 6]], "shape": [4], "labels": [0, 1]},
        rows=[{"round": 0, "loss": 0.7}, {"round": 3, "loss": 0.5}],
        client_metrics={"loss": np.array([0.4, 0.6])},
        hub={"model": np.linspace(-1, 1, 12)},
        info=[(), {"weights": np.ones(2)}],
    )
    server.save_checkpoint(progress, folder / "runs" / "one" / "checkpoint.safetensors")


_STATE = {"control": np.linspace(0, 1, 8, dtype=np.float32), "steps": np.int32(3)}


def _make_states(folder: Path) -> None:
    shelf = StateFolder(folder)
    for round in (3, 4):
        shelf.put((round, 0), {**_STATE, "steps": np.int32(round)})


def _read_states(folder: Path) -> None:
    found = StateFolder(folder).read(_STATE)
    for file in folder.glob("*.safetensors"):
        round = int(file.stem.split("-")[0])
        if (round, 0) not in found:
            raise StaleStateError(f"{file}: is as good as lost")
        assert found[round, 0]["steps"] == round


def _make_kit(folder: Path) -> None:
    kit = Kit(folder, "site", "berlin", "example", "hospitals")
    kit.write_card()
    record = Record(kit, "one")
    record.sites, record.jobs = ["a", "b"], ["123"]
    record.write()
    (folder / "policy.toml").write_text('methods = ["fedavg"]\nmin_sites = 2\nclip = 1.0\n')


def _read_kit(folder: Path) -> None:
    read_policy(folder)
    Record(open_kit(folder, "site"), "one")


def _make_model(folder: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [
        {"weights": np.sign(rng.normal(size=shape)).astype(np.float32), "bias": np.ones(shape[1])}
        for shape in ((4, 5), (5, 3))
    ]
    arrays = [{k: np.asarray(v, np.float32) for k, v in layer.items()} for layer in arrays]
    own = fl.deploy.Deployed(fl.models.MLP((5,)), arrays, (4,), ("a", "b", "c"))
    own.save(folder / "own.safetensors")


def _make_tables(kind: str) -> Callable[[Path], None]:
    return lambda folder: _rows(folder, kind)


def _read_tables(kind: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        for site in ("a", "b", "c"):
            fl.data.load(folder / f"{site}.{kind}", label="y", features=["size", "place"])
        files = SiteFiles(sites=str(folder), label="y", test_fraction=0.2)
        for table in files.tables():
            propose(table, files.reading)

    return read


def _make_libsvm(folder: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(20):
        places = np.sort(rng.choice(30, 5, replace=False)) + 1
        pairs = " ".join(f"{j}:{rng.normal():.4f}" for j in places)
        lines.append(f"{rng.integers(0, 2)} {pairs}\n")
    (folder / "rows.svm").write_text("".join(lines))


def _make_images(folder: Path) -> None:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (6, 4, 4), np.uint8), rng.integers(0, 3, 6).astype("u1")
    for name, array in (("images-idx3-ubyte", pixels), ("labels-idx1-ubyte", labels)):
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        (folder / f"train-{name}").write_bytes(head + array.tobytes())


def _make_leaf(folder: Path) -> None:
    import json

    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        data = {u: {"x": rng.normal(size=(4, 3)).tolist(), "y": [0, 1, 1, 0]} for u in "pq"}
        shard = {"users": list(data), "num_samples": [4, 4], "user_data": data}
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / "shard.json").write_text(json.dumps(shard))


def _load(name: str, **options: Any) -> Callable[[Path], object]:
    return lambda folder: fl.data.load(folder / name, **options)


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            "run",
            _make_run,
            _read_run,
            ("run/*.json", "run/*.parquet", "run/*.safetensors"),
            ("run/settings.toml",),
        ),
        Subject(
            "resume", _make_checkpoint, _read_checkpoint,
            ("run/checkpoint.safetensors", "run/settings.json"), ("run/settings.toml",),
        ),
        Subject(
            "server", _make_server,
            lambda folder: server.load_checkpoint(folder / "runs/one/checkpoint.safetensors"),
            ("runs/one/*",),
        ),
        Subject("states", _make_states, _read_states, ("*.safetensors",)),
        Subject("kit", _make_kit, _read_kit, ("*.json", "runs/*.json"), ("policy.toml",)),
        Subject("model", _make_model, lambda f: fl.load(f / "own.safetensors"), ("*.safetensors",)),
        Subject("csv", _make_tables("csv"), _read_tables("csv"), (), ("*.csv",)),
        Subject("parquet", _make_tables("parquet"), _read_tables("parquet"), (), ("*.parquet",)),
        Subject("libsvm", _make_libsvm, _load("rows.svm"), (), ("*.svm",)),
        Subject("idx", _make_images, _load("train-images-idx3-ubyte"), (), ("train-*",)),
        Subject("leaf", _make_leaf, _load("."), (), ("*/shard.json",)),
    )
}  # fmt: skip
