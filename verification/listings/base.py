"""What is known of a transcription: the cases that it can run, and how results compare with it."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fedloom.measuring.result import Result
from verification.cases import Case
from verification.values import Strategy


class Pair(NamedTuple):
    """One array of a result, and what the transcription says of it."""

    name: str
    got: Any
    expected: Any


@dataclasses.dataclass(frozen=True)
class Listing:
    """A transcription, and the part of all cases that it was written for."""

    fields: Callable[[int], dict[str, Strategy]]  # of the method, for n clients
    problem: Callable[[int], Strategy]
    pairs: Callable[[Case, Result], Iterator[Pair]]
    batch_sizes: Strategy = dataclasses.field(default_factory=lambda: st.none() | st.integers(1, 8))
    any_seed: bool = True
    tolerance: float = 1e-12


def only(**values: Any) -> dict[str, Strategy]:
    """Fields that must have one value."""
    return {name: st.just(value) for name, value in values.items()}
