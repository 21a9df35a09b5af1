"""What bounds a round on this machine: the least that all cores must read, or multiply.

For logistic regression, rows of single precision are read from memory, once for each time that a
step uses them, and nothing else is done. For the network, matrices of a size that suits the CPU are
multiplied, as many numbers as its products have. Rows that are kept in fewer bytes, or that stay in
a cache, can be read faster than this.
"""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.timing import contest
from benchmarks.workloads import Workload

_LARGE = 64 * 2**20  # numbers, which no cache holds
_SIDE = 1024  # of a matrix
# Multiplications for one image, forwards; as many again for each of the two gradients, of which the
# first layer needs only that of its weights.
_FIRST, _REST = 28 * 28 * 16 * 9, 14 * 14 * 32 * 9 * 16 + 7 * 7 * 32 * 128 + 128 * 10


def prepare(w: Workload, cores: int | None):
    rows = w.cohort * w.steps * w.batch
    return _multiplying(rows) if w.is_image else _reading(rows * w.features[0])


def _reading(numbers: int):
    cores = os.cpu_count() or 1
    memory = np.ones(_LARGE, np.float32)
    part = -(-numbers // cores)
    starts = itertools.cycle(range(0, _LARGE - part, part))
    pool = ThreadPoolExecutor(cores)

    def read(start: int) -> float:
        own = memory[start : start + part]
        return float(np.dot(own, own))

    def run(rounds: int) -> None:
        for first in range(0, rounds, 100):
            many = cores * min(100, rounds - first)
            list(pool.map(read, list(itertools.islice(starts, many))))

    return run


def _multiplying(rows: int):
    products = rows * (2 * _FIRST + 3 * _REST) / _SIDE**3
    a = np.ones((_SIDE, _SIDE), np.float32)
    b, out = a.copy(), a.copy()

    def run(rounds: int) -> None:
        for _ in range(round(rounds * products)):
            np.matmul(a, b, out=out)

    return run


if __name__ == "__main__":
    contest(prepare)
