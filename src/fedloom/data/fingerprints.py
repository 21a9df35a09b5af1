"""A number for all features of a federation, by which changed ones are told from the same.

    value = sum over rows i and features j of u_i x_ij v_j

with weights between a half and two and a half, no two alike, so that every number counts, and so
does its place. Not a digest: the last bits of a standardised feature differ from host to host, and
two values count as one if they are as close as these bits leave them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedloom.on_disk import OnDisk

Fingerprint = list[float]  # plain, for JSON: the value, and the length of all features together

_SAME = 1e-8  # of the length: below, values differ by rounding
_AT_ONCE = 2**22  # numbers that are looked at together
_ROWS_OF_A_DISK = 1000  # of files that may be larger than memory, spread evenly


def fingerprint(blocks: Sequence[Any]) -> Fingerprint | None:
    """The fingerprint of arrays (rows, ...), dense, sparse or on the disk; None: not finite.

    Args:
        blocks: The features; of those on the disk a thousand rows are looked at.
    """
    value = squares = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for number, block in enumerate(blocks):
            if isinstance(block, OnDisk):
                count = min(len(block), _ROWS_OF_A_DISK)
                block = block.read(np.linspace(0, max(len(block) - 1, 0), count).astype(int))
            of_columns = _weights(math.prod(block.shape[1:]), math.sqrt(2 + number))
            of_rows = _weights(block.shape[0], math.sqrt(3 + number))
            step = max(1, int(_AT_ONCE / max(1, _numbers_of_a_row(block))))
            for start in range(0, block.shape[0], step):
                rows = _flat(block[start : start + step])
                value += float(of_rows[start : start + step] @ (rows @ of_columns))
                numbers = rows if isinstance(rows, np.ndarray) else rows.data
                squares += float(np.vdot(numbers, numbers))
    told = [value, math.sqrt(squares)]
    return told if all(map(math.isfinite, told)) else None


def differ(one: Fingerprint | None, other: Fingerprint | None) -> bool:
    """Whether features are known to be others."""
    if one is None or other is None:
        return False
    return abs(one[0] - other[0]) > _SAME * max(one[1], other[1])


def _numbers_of_a_row(block: Any) -> float:
    """How many numbers a row takes; a sparse one has a few of its many columns."""
    if hasattr(block, "indptr"):
        return float(block.nnz / max(1, block.shape[0]))
    return math.prod(block.shape[1:])


def _weights(count: int, pace: float) -> np.ndarray:
    return 1.5 + np.sin(pace * np.arange(1, count + 1))


def _flat(rows: Any) -> Any:
    if hasattr(rows, "indptr"):
        return rows.astype(np.float64, copy=False)
    rows = np.asarray(rows)
    return rows.reshape(len(rows), -1).astype(np.float64, copy=False)
