"""Random numbers that are cheap inside a compiled loop, and the same on every engine.

Keys are folded from (seed, round, exchange, client), so that every engine draws the same numbers,
whatever the order in which clients answer. Rounds count from 1; round 0 is the opening.

There are three functions. `key(seed)` makes an ordinary JAX key over a counter-based hash: every
function of `jax.random` works on it, and a word costs a few integer operations, where threefry
needs dozens. It is for sampling, not for secrets: privacy noise must use a cryptographic generator.

`distinct(key, domain, count)` draws without replacement and without a sort: it reads the first
entries of a keyed permutation. The permutation is a Feistel network on a grid of `rows x columns`
cells that covers 0 .. size-1 as tightly as possible; the few cells beyond `size` are walked over.

`weighted(key, weights, count)` draws with replacement, in proportion to weights: it walks down a
tree of their sums, so that of a million weights only a few hundred are added up one by one.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

from fedloom.parameters import Rule
from fedloom.types import Array, Held

SEED = Rule(
    lambda v: type(v) is int and 0 <= v < 2**63,
    "a whole number from 0 to 2^63 - 1",
    0,
    {"type": "integer", "minimum": 0},
)

_GOLDEN = np.uint32(0x9E3779B9)
_LAST_32 = 0xFFFFFFFF
_FEISTEL_ROUNDS = 8  # with sides of 4 or more, pairs are uniform to under one per cent
_SHORTEST_SIDE = 4
_FIRST_STATE = 2**31  # no run has so many rounds
_AT_THE_HUB = 0
_BRANCHES = 128  # of a node in a tree of sums


def _mix(word: Array) -> Array:
    """A bijection of 32-bit words in which every input bit moves about half of the output bits."""
    word = (word ^ (word >> 16)) * np.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * np.uint32(0x846CA68B)
    return word ^ (word >> 16)


def _words(key: Array, counters: Array, stream: int) -> Array:
    """One hashed word for each counter; streams do not meet."""
    start = np.uint32(0x632BE5AB * (stream + 1) & 0xFFFFFFFF)
    return _mix(_mix(counters * _GOLDEN + (key[0] ^ start)) + key[1])


# What runs in every program is jitted by itself: JAX then reads it once for each shape.
@jax.jit
def _children(key: Array, counters: Array) -> Array:
    return jnp.stack([_words(key, counters, 0), _words(key, counters, 1)], axis=-1)


def _seed(seed: Array) -> Array:
    seed = jnp.asarray(seed)
    low = seed.astype(np.uint32)
    high = (seed >> 32).astype(np.uint32) if seed.dtype.itemsize == 8 else jnp.zeros_like(low)
    return jnp.stack([_mix(low + _GOLDEN), _mix(high ^ _GOLDEN)])


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    counters = jax.lax.iota(np.uint32, math.prod(shape))
    return _children(key, counters).reshape(*shape, 2)


@jax.jit
def _fold_in(key: Array, data: Array | int) -> Array:
    # The rotation keeps fold_in(key, i) apart from split(key)[i].
    return _children(jnp.stack([key[1], key[0] ^ _GOLDEN]), jnp.asarray(data).astype(np.uint32))


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    words = _words(key, jax.lax.iota(np.uint32, size), 2)
    if bit_width == 64:
        high = _words(key, jax.lax.iota(np.uint32, size), 3).astype(np.uint64)
        return ((high << 32) | words.astype(np.uint64)).reshape(shape)
    return (words >> (32 - bit_width)).astype(f"uint{bit_width}").reshape(shape)


_LOOM = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="loom",
    tag="loom",
)


IMPL = _LOOM  # for `jax.random.wrap_key_data`, where a key travels as its words


def key(seed: int | Array) -> Array:
    """The root of all randomness of a run, from which all other keys descend.

    The key of `jax.random.key` on this generator; the words of a plain seed are made without JAX,
    for which nothing is compiled.
    """
    if isinstance(seed, jax.Array):
        return jax.random.key(seed, impl=_LOOM)
    seed = int(seed)
    words = [_mixed(seed + int(_GOLDEN)), _mixed((seed >> 32) ^ int(_GOLDEN))]
    return jax.random.wrap_key_data(np.array(words, np.uint32), impl=_LOOM)  # type: ignore[arg-type]


def _mixed(word: int) -> int:
    """`_mix` of the last 32 bits of a whole number."""
    word &= _LAST_32
    word = (word ^ (word >> 16)) * 0x7FEB352D & _LAST_32
    word = (word ^ (word >> 15)) * 0x846CA68B & _LAST_32
    return word ^ (word >> 16)


def fold(key: Array, *path: Array | int) -> Array:
    """Descend from a key along (round, exchange, client, ...)."""
    return functools.reduce(jax.random.fold_in, path, key)


def hub_key(root: Array, round: Array | int) -> Array:
    """The key of the hub's own draws in a round."""
    return fold(root, round, _AT_THE_HUB)


def client_key(root: Array, round: Array | int, exchange: int, client: Array | int) -> Array:
    """The key of a client in one exchange of a round; exchanges count from 1."""
    return fold(root, round, exchange, client)


def first_hub_key(root: Array) -> Array:
    """The key of the hub's first state."""
    return hub_key(root, _FIRST_STATE)


def first_client_key(root: Array, id: Array | int) -> Array:
    """The key of a client's first state."""
    return client_key(root, _FIRST_STATE, 1, id)


def nth(key: Array, index: Array) -> Array:
    """The key that `jax.random.split(key, ...)` holds at `index`, without making the others."""
    data = _children(jax.random.key_data(key), jnp.asarray(index).astype(np.uint32))
    return jax.random.wrap_key_data(data, impl=_LOOM)


class Domain(NamedTuple):
    """A set 0 .. size-1 laid on a grid; each entry a number, or an array with one for a client."""

    size: Held
    rows: Held
    columns: Held


@functools.cache
def _grid(size: int) -> tuple[int, int]:
    """The near-square grid with the fewest cells beyond `size`."""
    root = max(math.isqrt(size), _SHORTEST_SIDE)
    heights = range(root + 1, max(_SHORTEST_SIDE, 3 * root // 4) - 1, -1)
    shapes = [(rows, max(_SHORTEST_SIDE, -(-size // rows))) for rows in heights]
    return min(shapes, key=math.prod)


def domain(sizes: int | np.ndarray) -> Domain:
    """Lay out the index set of one size, or of each client's size."""
    grids = np.array([_grid(int(size)) for size in np.ravel(sizes)], np.uint32)
    shape = np.shape(sizes)
    return Domain(
        np.asarray(sizes, np.uint32), grids[:, 0].reshape(shape), grids[:, 1].reshape(shape)
    )


@functools.partial(jax.jit, static_argnames="count")  # traced once for each shape, then inlined
def distinct(key: Array, domain: Domain, count: int) -> Array:
    """The first `count` entries of a random permutation of 0 .. size-1.

    Where `count` exceeds the size, the entries from `size` on repeat the last one.
    """
    size, rows, columns = (jnp.asarray(number, np.uint32) for number in domain)
    # Round keys from the key's words, so that one key gives one permutation.
    round_keys = jax.random.bits(key, (_FEISTEL_ROUNDS,), np.uint32)

    def below(limit: Array, word: Array) -> Array:
        """A number in 0 .. limit-1 from a word, for limits below 2**16: no division."""
        word = word * np.uint32(0x9E3779B1)
        word = (word ^ (word >> 15)) * np.uint32(0x85EBCA77)
        return ((word >> 16) * limit) >> 16

    def permute(row: Array, column: Array) -> tuple[Array, Array]:
        for step in range(_FEISTEL_ROUNDS):
            if step % 2 == 0:
                row = row + below(rows, column + round_keys[step])
                row = jnp.where(row >= rows, row - rows, row)
            else:
                column = column + below(columns, row + round_keys[step])
                column = jnp.where(column >= columns, column - columns, column)
        return row, column

    # A cell is one word, its sides being below 2**16: of two, XLA computes each on its own, and
    # with it the whole permutation.
    def moved(row: Array, column: Array) -> Array:
        row, column = permute(row, column)
        return (row << 16) | column

    def sides(cell: Array) -> tuple[Array, Array]:
        return cell >> 16, cell & np.uint32(0xFFFF)

    def number(cell: Array) -> Array:
        row, column = sides(cell)
        return row * columns + column

    def walk(cell: Array) -> Array:
        return jnp.where(number(cell) >= size, moved(*sides(cell)), cell)

    place = jnp.minimum(jax.lax.iota(np.uint32, count), size - 1)
    # Exact for counts below 2**22, and vectorised where integer division is not.
    row = ((place.astype(np.float32) + 0.5) / columns.astype(np.float32)).astype(np.uint32)
    cell = moved(row, place - row * columns)
    cell = jax.lax.while_loop(lambda cell: (number(cell) >= size).any(), walk, cell)
    return number(cell).astype(np.int32)


@functools.partial(jax.jit, static_argnames="count")
def weighted(key: Array, weights: Array, count: int) -> Array:
    """`count` independent draws from 0 .. n-1, each in proportion to the weights.

    One number in single precision tells 2^23 places apart, too few for a million weights; every
    level of the tree has a number of its own.
    """
    levels = [weights * 1.0]  # whole numbers, too, as floating point
    while len(levels[-1]) > _BRANCHES:
        levels.append(_branches(levels[-1]).sum(1))
    place = jnp.zeros(count, np.int32)
    for depth, sums in enumerate(reversed(levels)):
        ends = jnp.cumsum(_branches(sums)[place] if depth else sums[None, :], axis=1)
        level_key = jax.random.fold_in(key, depth) if depth else key
        # Above zero, and no more than the last end: what has no weight is never drawn.
        target = ends[:, -1] * (1 - jax.random.uniform(level_key, (count,), ends.dtype))
        branch = (ends < target[:, None]).sum(1, dtype=np.int32)
        place = place * _BRANCHES + branch
    return place


def _branches(sums: Array) -> Array:
    """The nodes of a level in rows of one parent each, the last of them padded with zeros."""
    return jnp.pad(sums, (0, -len(sums) % _BRANCHES)).reshape(-1, _BRANCHES)
