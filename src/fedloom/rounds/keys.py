"""Which random key belongs to whom.

Keys are folded from (seed, round, exchange, client), so that every engine draws the same numbers,
whatever the order in which clients answer. Rounds count from 1; round 0 is the opening.
"""

from fedloom import draws
from fedloom.types import Array

_FIRST_STATE = 2**31  # no run has so many rounds
_AT_THE_HUB = 0


def root(seed: int) -> Array:
    """The key from which all others descend."""
    return draws.key(seed)


def hub(root: Array, round: Array | int) -> Array:
    """The key of the hub's own draws in a round."""
    return draws.fold(root, round, _AT_THE_HUB)


def client(root: Array, round: Array | int, exchange: int, client: Array | int) -> Array:
    """The key of a client in one exchange of a round; exchanges count from 1."""
    return draws.fold(root, round, exchange, client)


def first_hub(root: Array) -> Array:
    """The key of the hub's first state."""
    return hub(root, _FIRST_STATE)


def first_client(root: Array, id: Array | int) -> Array:
    """The key of a client's first state."""
    return client(root, _FIRST_STATE, 1, id)
