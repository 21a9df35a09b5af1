"""Rows that stay on the disk: what is read of them, and the bits of rows in memory."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

import fedloom as fl
from data.messages import raises
from fedloom.errors import DataError
from fedloom.on_disk import OnDisk
from fedloom.population import know
from fedloom.rounds.crew import cores
from fedloom.rows import room_for
from fedloom.simulator import places

DIGITS = fl.data.load("digits")


def mapped(folder, array, name="some"):
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def parts_of(folder, sizes=(5, 1, 9)):
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 256, (sum(sizes), 3, 2), np.uint8)
    cuts = np.split(whole, np.cumsum(sizes)[:-1])
    return whole, [mapped(folder, part, f"part{i}") for i, part in enumerate(cuts)]


def test_rows_are_those_of_the_files_in_any_order_and_shape(tmp_path):
    whole, parts = parts_of(tmp_path)
    for held in (OnDisk(parts), OnDisk([mapped(tmp_path, whole)])):
        assert held.shape == whole.shape and held.nbytes == whole.nbytes and held.ndim == 3
        places = np.array([[14, 0, 5], [5, 6, 2]])
        np.testing.assert_array_equal(held.read(places), whole[places])
        np.testing.assert_array_equal(np.asarray(held), whole)
        np.testing.assert_array_equal(np.asarray(held[2:9][::-1]), whole[2:9][::-1])
        np.testing.assert_array_equal(np.asarray(held[places[0]][1:]), whole[places[0]][1:])
        np.testing.assert_array_equal(held.read(np.array([99])), whole[-1:])
        assert held.bounds() == (whole.min(), whole.max()) and held[np.arange(15)].order is None


def test_words_on_the_disk_are_read_once_to_see_that_a_network_knows_them(tmp_path, monkeypatch):
    words = mapped(tmp_path, np.random.default_rng(0).integers(0, 9, (20, 4)).astype(np.uint16))
    clients = fl.data.from_arrays([(words, np.arange(20) % 2)])
    assert isinstance(clients.train.x, OnDisk)
    small = fl.models.Transformer(vocabulary=5, width=4, heads=1, blocks=1)
    passes, portions = [], OnDisk.portions
    monkeypatch.setattr(OnDisk, "portions", lambda held: passes.append(held) or portions(held))
    with raises(DataError, "it is 5", "Try vocabulary = 9"):
        know(fl.problems.Supervised(small), clients, "float32")
    assert len(passes) == 1


def test_types_are_those_that_are_asked_for(tmp_path):
    whole, parts = parts_of(tmp_path)
    pixels = OnDisk(parts, dtype=np.float32, pixels=True)
    expected = np.divide(whole, 255, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(pixels), expected)
    assert np.asarray(pixels[3:].astype(np.float64)).dtype == np.float64
    assert repr(pixels) == "OnDisk(float32[15, 3, 2])"


def test_rows_that_are_read_into_memory_are_not_copied_to_a_cpu():
    made = room_for((100, 7), np.float32)
    assert made.shape == (100, 7) and not made.any()
    assert jax.device_put(made).unsafe_buffer_pointer() == made.ctypes.data


def on_disk(clients, folder):
    """The same clients with features in files."""

    def moved(rows, name):
        return None if rows is None else rows._replace(x=OnDisk([mapped(folder, rows.x, name)]))

    train, test = moved(clients.train, "train"), moved(clients.test, "test")
    return dataclasses.replace(clients, train=train, test=test)


@pytest.fixture
def no_room(monkeypatch):
    """No rows fit into memory."""
    monkeypatch.setattr(places, "_OF_A_MACHINE", 0.0)


@pytest.mark.parametrize("problem", ["multinomial", "network", "regression"])
def test_rows_on_the_disk_give_the_numbers_of_rows_in_memory(
    tmp_path, monkeypatch, no_room, capsys, problem
):
    """To rounding, which differs from JAX 0.11 on: these are other programs.

    Metrics see some rows at a time; those of scores are among them.
    """
    monkeypatch.setattr("fedloom.on_disk._TOGETHER", 64 * 4 * 6 * 5)  # five rows of each client
    tested = 0.2 if problem == "network" else None
    clients = fl.data.partition(DIGITS, "dirichlet", clients=6, alpha=0.5, test_fraction=tested)
    made, metrics = {
        "multinomial": (fl.problems.Multinomial(), ("accuracy", "loss", "f1")),
        "network": (fl.problems.Supervised(fl.models.MLP((8,))), None),
        "regression": (fl.problems.LeastSquares(), None),
    }[problem]  # fmt: skip
    if problem == "regression":
        y = clients.train.y.astype(float)
        clients = dataclasses.replace(clients, train=clients.train._replace(y=y), labels=None)
    method = fl.algorithms.Scaffold(lr=0.1, local_steps=3, cohort=4)

    def run(clients):
        return fl.simulate(
            method, made, clients, rounds=4, eval_every=2, metrics=metrics, progress=False
        )

    here, there = run(clients), run(on_disk(clients, tmp_path))
    assert "the rows stay on the disk" in capsys.readouterr().err
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, here.state, there.state)
    for one, other in zip(here.rows, there.rows, strict=True):
        assert one == pytest.approx(other | {"seconds": one["seconds"]}, rel=1e-5)


@pytest.mark.skipif(cores() < 2, reason="a crew has no more members than there are cores")
def test_threads_read_their_own_batches(tmp_path, no_room):
    clients = on_disk(fl.data.partition(DIGITS, "iid", clients=6), tmp_path)
    large = fl.problems.Supervised(fl.models.MLP((280,)))
    method = fl.algorithms.Scaffold(lr=0.1, local_steps=3, cohort=4)
    options = {"rounds": 20, "batch_size": 8, "eval_every": 10, "progress": False}
    one, all_of_them = (
        fl.simulate(method, large, clients, devices=count, **options) for count in (1, None)
    )
    jax.tree.map(np.testing.assert_array_equal, one.state, all_of_them.state)


def test_full_gradients_and_the_optimum_of_rows_on_the_disk(tmp_path, no_room):
    clients = fl.data.partition(DIGITS, "iid", clients=3)
    there = on_disk(clients, tmp_path)
    problem = fl.problems.Multinomial(l2=0.1)
    method = fl.algorithms.FedAvg(lr=0.1, local_steps=2)
    for precision in ("float32", "float64"):
        options = {"rounds": 2, "batch_size": None, "precision": precision, "progress": False}
        models = [fl.simulate(method, problem, h, **options).model for h in (clients, there)]
        assert all(map(np.array_equal, *map(jax.tree.leaves, models)))
    assert fl.reference(problem, there).value == pytest.approx(fl.reference(problem, clients).value)


def test_memory_mapped_arrays_stay_on_the_disk(tmp_path):
    x, y = DIGITS.x.astype(np.float32), DIGITS.y
    cut = np.split(np.arange(len(y)), [500, 900])
    parts = [(x[rows], y[rows]) for rows in cut]
    there = [(mapped(tmp_path, x, f"x{i}"), y) for i, (x, y) in enumerate(parts)]
    clients = fl.data.from_arrays(there)
    assert isinstance(clients.train.x, OnDisk) and len(clients) == 3
    np.testing.assert_array_equal(clients.of(1).x.read(np.arange(4)), parts[1][0][:4])
    held_out = fl.data.hold_out(clients, 0.2)
    assert isinstance(held_out.test.x, OnDisk) and clients.is_complete()
    np.testing.assert_array_equal(
        np.asarray(held_out.train.x), fl.data.hold_out(fl.data.from_arrays(parts), 0.2).train.x
    )


def test_rows_that_fit_are_read_into_memory_once(tmp_path, monkeypatch, capsys):
    clients = fl.data.partition(DIGITS, "dirichlet", clients=6, alpha=0.5, test_fraction=0.2)
    there, read, seen = on_disk(clients, tmp_path), OnDisk.read, []
    monkeypatch.setattr(
        OnDisk, "read", lambda self, rows: seen.append(rows.size) or read(self, rows)
    )
    method, problem = fl.algorithms.FedAvg(lr=0.1, local_steps=2), fl.problems.Multinomial()
    models = [
        fl.simulate(method, problem, held, rounds=3, progress=False).model
        for held in (clients, there)
    ]
    assert all(map(np.array_equal, *map(jax.tree.leaves, models)))
    assert sum(seen) == len(DIGITS) and capsys.readouterr().err == ""


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_a_gap_is_named_when_it_is_read(tmp_path, monkeypatch, part):
    monkeypatch.setattr(places, "_OF_A_MACHINE", part)
    x = DIGITS.x.copy()
    x[700] = np.nan
    clients = fl.data.from_arrays([(mapped(tmp_path, x), DIGITS.y)])
    method, problem = fl.algorithms.FedAvg(lr=0.1), fl.problems.Multinomial()
    with raises(DataError, "on the disk", "finite number", "before the file is written"):
        fl.simulate(method, problem, clients, rounds=2, progress=False)
