"""What a law says of a method, and the numbers with which it says so."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fedloom.pytrees import named
from fedloom.types import Tree

KEPT, BROKEN, INAPPLICABLE, UNCHECKED = "kept", "broken", "does not apply", "not checked"


class Difference(NamedTuple):
    """Two numbers that should be one."""

    array: str  # which, as in "hub.model[2]"
    expected: Any
    got: Any
    where: str = ""  # how each of the two came about

    def __str__(self) -> str:
        told = f"{self.array}: expected {_number(self.expected)}, got {_number(self.got)}"
        return f"{told} ({self.where})" if self.where else told


class BrokenLawError(AssertionError):
    """A method breaks a law; the message says how."""

    def __init__(
        self, message: str, difference: Difference | None = None, *, line: str | None = None
    ):
        told = message if difference is None else f"{message}\n{difference}"
        super().__init__(told)
        self.message = message
        self.difference = difference
        self.line = line  # of the author's code


class InapplicableError(Exception):
    """A law says nothing of a method; the message says why."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one law says of a method."""

    law: str  # its key
    title: str  # the law in words
    verdict: str  # KEPT, BROKEN, INAPPLICABLE or UNCHECKED
    reason: str = ""  # what was looked at, what is wrong, or why the law says nothing
    difference: Difference | None = None  # the numbers, where there are two
    line: str | None = None  # of the author's code, where one is to blame
    example: str = ""  # the smallest federation found on which the law is broken, in words
    code: str = ""  # Python that shows it again

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shown = self.difference
        if shown is not None:
            plain = {"expected": _plain(shown.expected), "got": _plain(shown.got)}
            values["difference"] = shown._asdict() | plain
        return values


def same_bits(message: str, expected: Tree, got: Tree, *, root: str = "", where: str = "") -> None:
    """Raise where an array of one tree is not that of the other to the last bit."""
    _compare(message, expected, got, root, where, None)


def close(
    message: str,
    expected: Tree,
    got: Tree,
    *,
    tolerance: tuple[float, float],
    root: str = "",
    where: str = "",
) -> None:
    """Raise where an array differs by more than rounding: `tolerance` is relative and absolute."""
    _compare(message, expected, got, root, where, tolerance)


def _compare(
    message: str,
    expected: Tree,
    got: Tree,
    root: str,
    where: str,
    tolerance: tuple[float, float] | None,
) -> None:
    for name, a, b in _pairs(message, expected, got, root):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise BrokenLawError(
                message,
                Difference(name, f"{a.dtype}{a.shape}", f"{b.dtype}{b.shape}", where),
            )
        if tolerance is None:
            wrong = a != b
            wrong &= ~((a != a) & (b != b))  # NaN is NaN
        else:
            relative, absolute = tolerance
            wrong = ~np.isclose(b, a, rtol=relative, atol=absolute, equal_nan=True)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            index = f"[{', '.join(map(str, at))}]" if at else ""
            raise BrokenLawError(
                message, Difference(f"{name}{index}", a[at].item(), b[at].item(), where)
            )


def _pairs(
    message: str, expected: Tree, got: Tree, root: str
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    left, right = named(expected, root), named(got, root)
    if left.keys() != right.keys():
        one, other = ", ".join(left) or "nothing", ", ".join(right) or "nothing"
        raise BrokenLawError(message, Difference("the arrays", one, other))
    for name in left:
        yield name, np.asarray(left[name]), np.asarray(right[name])


def _number(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else str(value)
