"""Messages survive the wire exactly, and nothing else gets through."""

from typing import NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedloom.errors import WireError
from fedloom.exchange import wire


class Message(NamedTuple):
    model: np.ndarray
    count: np.ndarray


class Nested(NamedTuple):
    inner: Message
    flags: tuple


DTYPES = [
    np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int32, np.int16, np.int8,
    np.uint64, np.uint32, np.uint16, np.uint8, np.bool_,
]  # fmt: skip


def shapes(tree):
    return jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), tree)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_every_dtype_and_shape_returns_exactly(dtype, shape):
    size = int(np.prod(shape))
    array = np.arange(size).reshape(shape).astype(dtype)
    tree = Nested(Message(array, np.float32(2)), (np.array(True),))
    back = wire.decode(wire.encode(tree), shapes(tree))
    assert isinstance(back, Nested) and isinstance(back.inner, Message)
    for sent, got in zip(jax.tree.leaves(tree), jax.tree.leaves(back), strict=True):
        assert got.dtype == sent.dtype and got.shape == sent.shape
        assert got.tobytes() == np.asarray(sent).tobytes()


@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(width=32))
)
@settings(max_examples=50, deadline=None)
def test_bits_are_kept_even_of_nan_and_infinity(array):
    tree = Message(array, np.int64(1))
    assert wire.decode(wire.encode(tree), shapes(tree)).model.tobytes() == array.tobytes()


def test_strided_arrays_travel():
    array = np.arange(12.0).reshape(3, 4).T[::2]
    back = wire.decode(wire.encode(Message(array, np.int64(0))), Message(array, np.int64(0)))
    np.testing.assert_array_equal(back.model, array)


def test_an_empty_message_travels():
    assert wire.decode(wire.encode(()), ()) == ()


def test_arrays_are_read_in_the_order_of_their_names():
    data = wire.encode({f"{i:02d}": np.full(i % 3, i) for i in range(40)})
    for _ in range(5):  # safetensors gives another order at each reading
        assert list(wire.read(data)) == [f"{i:02d}" for i in range(40)]


GOOD = Message(np.zeros(3, np.float32), np.int32(1))


@pytest.mark.parametrize(
    "sent,complaint",
    [
        (Message(np.zeros(4, np.float32), np.int32(1)), r"model must be float32 of shape \(3,\)"),
        (Message(np.zeros(3, np.float64), np.int32(1)), "model must be float32"),
        ((np.zeros(3, np.float32),), "missing: count, model, unexpected: 0"),
        (Nested(GOOD, ()), "unexpected: inner/count, inner/model"),
    ],
)
def test_anything_else_than_expected_is_refused(sent, complaint):
    with pytest.raises(WireError, match=complaint):
        wire.decode(wire.encode(sent), GOOD)


def test_a_message_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(WireError, match="exceeds the"):
        wire.decode(b"\0" * 10**6, GOOD)


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_noise_is_refused(data):
    with pytest.raises(WireError):
        wire.decode(data, GOOD)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_message_is_refused_or_changes_numbers_only(data):
    damaged = bytearray(wire.encode(GOOD))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        got = wire.decode(bytes(damaged), GOOD)
    except WireError:
        return
    assert got.model.shape == (3,) and got.model.dtype == np.float32
