"""A hundred thousand damaged messages: none crashes, none grows, none is taken for another."""

import tracemalloc
from typing import NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest

from fedloom.errors import NotFiniteError, WireError
from fedloom.exchange import wire

MESSAGES = 100_000
PORTION = 1000


class Reply(NamedTuple):
    model: np.ndarray
    half: np.ndarray
    steps: np.ndarray


GOOD = Reply(np.linspace(-1, 1, 12, dtype=np.float32), np.ones(5, ml_dtypes.bfloat16), np.int32(7))
SHAPES = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype), GOOD)
BASE = np.frombuffer(wire.encode(GOOD), np.uint8)
HEADER = 8 + int.from_bytes(BASE[:8].tobytes(), "little")


def overwritten(rng):
    """A few bytes anywhere are replaced."""
    copies = np.tile(BASE, (PORTION, 1))
    for _ in range(4):
        places = rng.integers(0, len(BASE), PORTION)
        copies[np.arange(PORTION), places] = rng.integers(0, 256, PORTION)
    return copies


def digits_changed(rng):
    """Digits of the header become others: shapes and offsets lie."""
    copies = np.tile(BASE, (PORTION, 1))
    digits = np.flatnonzero((BASE[:HEADER] >= 48) & (BASE[:HEADER] <= 57))
    for _ in range(2):
        places = rng.choice(digits, PORTION)
        copies[np.arange(PORTION), places] = rng.integers(48, 58, PORTION)
    return copies


def header_length_changed(rng):
    """The first eight bytes, which say how long the header is, are anything."""
    copies = np.tile(BASE, (PORTION, 1))
    copies[:, :8] = rng.integers(0, 256, (PORTION, 8)) * (rng.random((PORTION, 8)) < 0.4)
    return copies


def rotated(rng):
    """Parts change places."""
    shifts = rng.integers(1, len(BASE), PORTION)
    return BASE[(np.arange(len(BASE)) + shifts[:, None]) % len(BASE)]


def noise(rng):
    """Nothing is left of the message but its length."""
    return rng.integers(0, 256, (PORTION, len(BASE)), dtype=np.uint8)


KINDS = (overwritten, digits_changed, header_length_changed, rotated, noise)


def damaged(rng):
    """Damaged messages; half of them are also cut short or go on too long."""
    for turn in range(MESSAGES // PORTION):
        for i, row in enumerate(KINDS[turn % len(KINDS)](rng).astype(np.uint8)):
            data = row.tobytes()
            if i % 4 == 1:
                data = data[: rng.integers(0, len(data))]
            elif i % 4 == 2:
                data += bytes(int(rng.integers(1, 64)))
            yield data


def test_a_hundred_thousand_damaged_messages():
    tracemalloc.start()
    count = accepted = 0
    for data in damaged(np.random.default_rng(20261115)):
        count += 1
        try:
            got = wire.decode(data, SHAPES, finite=True)
        except WireError:
            continue
        accepted += 1
        # What is taken has the arrays that were expected, with numbers that the bytes hold.
        for name, leaf, like in zip(Reply._fields, got, SHAPES, strict=True):
            assert (leaf.shape, leaf.dtype) == (like.shape, like.dtype), name
            assert np.isfinite(np.asarray(leaf, np.float64)).all()
            assert leaf.tobytes() in data
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == MESSAGES
    assert 0 < accepted < MESSAGES // 10  # a changed number is a number; nothing else gets through
    assert peak < 20 * PORTION * len(
        BASE
    )  # a portion of messages, and nothing that a lie asked for


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["model", "half"])
def test_what_is_not_finite_is_refused_where_it_must_be(field, value):
    array = getattr(GOOD, field).copy()
    array[1] = value
    data = wire.encode(GOOD._replace(**{field: array}))
    with pytest.raises(NotFiniteError, match=f"{field} must hold finite numbers"):
        wire.decode(data, SHAPES, finite=True)
    assert wire.decode(data, SHAPES).model.shape == (12,)


def test_only_bytes_are_read():
    with pytest.raises(WireError, match="must be bytes; got str"):
        wire.decode("text", SHAPES)
