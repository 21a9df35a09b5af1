"""Rows of whole numbers are kept in a byte each, and the bits of a run are the same."""

import functools

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.rows import Narrow, narrowed
from fedloom.simulator import places
from fedloom.simulator.task import Task

RNG = np.random.default_rng(0)
BINARY = [
    ((RNG.random((rows, 12)) < 0.3).astype(np.float32), RNG.integers(0, 2, rows))
    for rows in (9, 14, 11)
]
CLIENTS = fl.data.from_arrays(BINARY)
METHOD = fl.algorithms.Scaffold(lr=0.1, local_steps=4)


def simulate(clients=CLIENTS, **options):
    options = {"rounds": 5, "batch_size": 4, "progress": False, **options}
    return fl.simulate(METHOD, fl.problems.Logistic(l2=0.01), clients, **options)


@pytest.mark.parametrize("batch_size", [4, None])
def test_the_bits_are_those_of_wide_rows(batch_size, monkeypatch):
    narrow = simulate(batch_size=batch_size)
    monkeypatch.setattr(places, "narrowed", lambda array: array)
    wide = simulate(batch_size=batch_size)
    jax.tree.map(np.testing.assert_array_equal, narrow.state, wide.state)
    assert narrow.final == wide.final | {"seconds": narrow.final["seconds"]}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_whole_numbers_of_a_byte_are_kept_in_one(dtype):
    array = RNG.integers(-128, 128, (50, 3)).astype(dtype)
    kept = narrowed(array)
    assert isinstance(kept, Narrow) and kept.kept.dtype == np.int8 and kept.dtype == dtype
    np.testing.assert_array_equal(kept.kept, array)


@pytest.mark.parametrize("value", [0.5, 128, -129, np.nan, np.inf, -0.0])
def test_what_would_lose_a_bit_stays_as_it_is(value):
    array = np.zeros((300_000, 1), np.float32)
    array[-1] = value
    assert narrowed(array) is array


def test_rows_that_stay_on_the_host_give_the_numbers_of_narrow_ones(monkeypatch, capsys):
    """To rounding: they are read by another program."""
    here = simulate()
    monkeypatch.setattr(places, "free_memory", lambda: 1)
    there = simulate()
    assert "rows stay in the host's memory" in capsys.readouterr().err
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7)
    jax.tree.map(close, here.state, there.state)


def test_rows_of_a_run_take_a_byte_for_each_number_once():
    made = Task(
        METHOD, fl.problems.Logistic(), CLIENTS, batch_size=4, metrics=(), precision="float32",
        optimum=None, devices=1, deterministic=True,
    )  # fmt: skip
    (group,) = made.federation.groups
    padded = 14 - 11  # rows, so that a slice of the longest client ends within the array
    assert group.train.rows.x.kept.nbytes == 12 * (9 + 14 + 11 + padded)


def test_arrays_are_placed_where_a_cpu_takes_them_as_they_lie():
    room = np.empty(1000 + 64, np.uint8)
    start = -room.ctypes.data % 64
    aligned, crooked = room[start : start + 800], room[start + 1 : start + 801]
    assert places._aligned(aligned) is aligned
    moved = places._aligned(crooked)
    assert moved.ctypes.data % 64 == 0
    np.testing.assert_array_equal(moved, crooked)
