"""Wrappers: they change what passes between a method and its clients, for any horizontal method.

A wrapper is itself an algorithm that holds another one, so wrappers nest:
`Unreliable(Private(FedAvg(lr=0.1), clip=1, noise=2), drop=0.1)`.
"""

from fedloom.algorithms.wrappers.compressed import Compressed
from fedloom.algorithms.wrappers.poisoned import Poisoned
from fedloom.algorithms.wrappers.private import Private
from fedloom.algorithms.wrappers.robust import Robust
from fedloom.algorithms.wrappers.unreliable import Unreliable
from fedloom.protocol import Algorithm

WRAPPERS: dict[str, type[Algorithm]] = {
    "compressed": Compressed,
    "poisoned": Poisoned,
    "private": Private,
    "robust": Robust,
    "unreliable": Unreliable,
}

__all__ = ["WRAPPERS", "Compressed", "Poisoned", "Private", "Robust", "Unreliable"]
