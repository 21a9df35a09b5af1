"""An iteration of EGVFL on data of a9a's size, against the same products in SciPy.

    python -m benchmarks.vertical [--repeats 7]

Both do an iteration's four sparse products at each of 5 parties, one after the other in one run,
and the ratio is what counts. SciPy's side has nothing but the products with CSR arrays (the
transposed ones made beforehand, which is its fastest form); EGVFL's has the whole iteration.
"""

import argparse
import itertools
import os
import platform
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array

from fedloom.algorithms import EGVFL
from fedloom.data import from_parties
from fedloom.engines import block, keys
from fedloom.engines.simulator import place, plan_for
from fedloom.federation import assemble
from fedloom.problems import Vertical

ROWS, WIDTHS, NONZEROS = 32561, (25, 25, 25, 24, 24), 14
ITERATIONS = 100


def blocks(rng: np.random.Generator) -> list:
    """Rows of 123 columns with 14 ones each, as a9a has, cut into 5 blocks."""
    places = np.argsort(rng.random((ROWS, sum(WIDTHS))), axis=1)[:, :NONZEROS]
    rows = np.repeat(np.arange(ROWS), NONZEROS)
    ones = np.ones(len(rows), np.float32)
    whole = csr_array((ones, (rows, places.ravel())), shape=(ROWS, sum(WIDTHS)))
    edges = np.cumsum((0, *WIDTHS))
    return [csr_array(whole[:, a:b]) for a, b in itertools.pairwise(edges)]


def with_scipy(parts: list) -> float:
    """Seconds for an iteration's products."""
    turned = [csr_array(part.T) for part in parts]
    shares = [np.ones(part.shape[1], np.float32) for part in parts]
    price = np.ones(ROWS, np.float32)
    began = time.perf_counter()
    for _ in range(ITERATIONS):
        for _ in range(2):
            for part, other, share in zip(parts, turned, shares, strict=True):
                part @ share
                other @ price
    return (time.perf_counter() - began) / ITERATIONS


def with_fedloom(parts: list, labels: np.ndarray):
    """A function that returns the seconds of an iteration."""
    problem, method, root = Vertical(l2=1.0), EGVFL(step=1e-3), keys.root(0)
    federation = assemble(problem, from_parties(parts, labels), None, "float32")
    plan = plan_for(federation, 1)
    federation = place(federation, plan)
    hub, clients, _ = block.compiled(block.opening, True)(method, federation, root, plan=plan)
    rounds = block.compiled(block.rounds, True)

    def run(stop: int) -> float:
        began = time.perf_counter()
        counters = (jnp.asarray(0, jnp.int32), jnp.asarray(stop, jnp.int32))
        outcome = rounds(method, federation, hub, clients, root, *counters, plan=plan)
        jax.block_until_ready(outcome)
        return (time.perf_counter() - began) / max(1, stop)

    run(1)
    return lambda: run(ITERATIONS)


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    parts = blocks(rng)
    iteration = with_fedloom(parts, rng.normal(size=ROWS))
    times = [(with_scipy(parts), iteration()) for _ in range(repeats)]
    scipy, ours = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in times)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"### An iteration of EGVFL, {ROWS} x {sum(WIDTHS)}, 5 parties ({machine})\n")
    print("| | ms an iteration |\n| --- | --- |")
    print(f"| SciPy, the products alone | {1000 * scipy:.2f} |")
    print(f"| fedloom, the whole iteration | {1000 * ours:.2f} |")
    print(f"\nratio {ratio:.2f} (median of {repeats}, in turns); at most 2 is asked for")


if __name__ == "__main__":
    main()
