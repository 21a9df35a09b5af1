"""An iteration of EGVFL on data of the sizes of a9a and w8a, against the same products in SciPy.

    python -m benchmarks.vertical [--repeats 7] [--out FILE]

Both do an iteration's four sparse products at each of 5 parties, one after the other in one run,
and the ratio is what counts. SciPy's side has nothing but the products with CSR arrays (the
transposed ones made beforehand, which is its fastest form); EGVFL's has the whole iteration. Blocks
of a9a's density (11 %) are kept dense, those of w8a's (4 %) sparse. On a GPU the products are
CuPy's, with CSR and with dense arrays, and the quicker of the two counts.
"""

import argparse
import itertools
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array

from fedloom import draws
from fedloom.algorithms import EGVFL
from fedloom.data import from_parties
from fedloom.population import assemble
from fedloom.problems import Vertical
from fedloom.rounds import program
from fedloom.rounds.compiling import compiled
from fedloom.simulator.places import put
from fedloom.simulator.task import plan_for

ITERATIONS = 100


class Case(NamedTuple):
    """The size of a data set: rows, columns of the parties, and how many ones a row has."""

    name: str
    rows: int
    widths: tuple[int, ...]
    typical: float  # of the ones in a row: their median
    spread: float  # of its logarithm; 0: all rows have as many
    longest: int

    def blocks(self, rng: np.random.Generator) -> list:
        """Rows with ones at random places, cut into the parties' blocks."""
        width, drawn = sum(self.widths), rng.lognormal(0, self.spread, self.rows)
        lengths = np.clip(self.typical * drawn, 1, self.longest).astype(int)
        places = np.argsort(rng.random((self.rows, width)), axis=1)
        chosen = np.arange(width) < lengths[:, None]
        row, ones = np.nonzero(chosen)[0], np.ones(chosen.sum(), np.float32)
        whole = csr_array((ones, (row, places[chosen])), shape=(self.rows, width))
        edges = np.cumsum((0, *self.widths))
        return [csr_array(whole[:, a:b]) for a, b in itertools.pairwise(edges)]


CASES = (
    Case("a9a", 32561, (25, 25, 25, 24, 24), 14, 0, 14),
    Case("w8a", 49749, (60,) * 5, 7.5, 1, 114),  # 11.6 ones on average, as there
)


def products(parts: list, turned: list, numbers: Any, wait: Callable[[], None]) -> float:
    """Seconds for an iteration's products, of arrays of SciPy or CuPy."""
    shares = [numbers.ones(part.shape[1], np.float32) for part in parts]
    price = numbers.ones(parts[0].shape[0], np.float32)
    wait()
    began = time.perf_counter()
    for _ in range(ITERATIONS):
        for _ in range(2):
            for part, other, share in zip(parts, turned, shares, strict=True):
                part @ share
                other @ price
    wait()
    return (time.perf_counter() - began) / ITERATIONS


def with_scipy(parts: list) -> Callable[[], float]:
    """A function that returns the seconds of an iteration's products."""
    turned = [csr_array(part.T) for part in parts]
    return lambda: products(parts, turned, np, lambda: None)


def with_cupy(parts: list) -> Callable[[], float]:
    """The same on a GPU, the quicker of sparse and dense arrays."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    wait = cupy.cuda.get_current_stream().synchronize
    dense = [cupy.asarray(part.toarray()) for part in parts]
    forms = {
        "CSR": ([csr_matrix(part) for part in parts], [csr_matrix(part.T) for part in parts]),
        "dense": (dense, [part.T for part in dense]),
    }
    times = {name: products(*form, cupy, wait) for name, form in forms.items()}
    times = {name: products(*form, cupy, wait) for name, form in forms.items()}  # warm
    return lambda: products(*forms[min(times, key=times.__getitem__)], cupy, wait)


def with_fedloom(parts: list, labels: np.ndarray):
    """A function that returns the seconds of an iteration, and the bytes of the blocks."""
    problem, method, root = Vertical(l2=1.0), EGVFL(step=1e-3), draws.key(0)
    federation = assemble(problem, from_parties(parts, labels), None, "float32")
    plan = plan_for(federation, 1, None)
    federation = put(federation, plan)
    opening = compiled(program.opening, "plan", small_steps=True)
    hub, clients, _ = opening(method, federation, root, plan=plan)
    rounds = compiled(program.rounds, "plan", small_steps=True)

    def run(stop: int) -> float:
        began = time.perf_counter()
        counters = (jnp.asarray(0, jnp.int32), jnp.asarray(stop, jnp.int32))
        outcome = rounds(method, federation, hub, clients, root, *counters, plan=plan)
        jax.block_until_ready(outcome)
        return (time.perf_counter() - began) / max(1, stop)

    run(1)
    held = sum(leaf.nbytes for group in federation.groups for leaf in jax.tree.leaves(group.train))
    return lambda: run(ITERATIONS), held


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Measure in turns and print."""
    rng = np.random.default_rng(0)
    parts = case.blocks(rng)
    iteration, held = with_fedloom(parts, rng.normal(size=case.rows))
    on_gpu = jax.default_backend() == "gpu"
    plain, other = (with_cupy(parts), "CuPy") if on_gpu else (with_scipy(parts), "SciPy")
    times = [(plain(), iteration()) for _ in range(repeats)]
    theirs, ours = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in times)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    if on_gpu:
        machine = jax.devices()[0].device_kind
    size = (case.rows, sum(case.widths))
    density, dense = sum(part.nnz for part in parts) / math.prod(size), 4 * math.prod(size)
    print(f"### An iteration of EGVFL, size of {case.name}, 5 parties ({machine})\n")
    print(f"{size[0]} x {size[1]}, {density:.1%} nonzeros; the parties hold {held / 1e6:.0f} MB")
    print(f"(as dense arrays: {dense / 1e6:.0f} MB)\n")
    print("| | ms an iteration |\n| --- | --- |")
    print(f"| {other}, the products alone | {1000 * theirs:.3f} |")
    print(f"| fedloom, the whole iteration | {1000 * ours:.3f} |")
    print(f"\nratio {ratio:.2f} (median of {repeats}, in turns); at most 2 is asked for\n")
    figures = {"theirs_ms": 1000 * theirs, "fedloom_ms": 1000 * ours, "ratio": ratio}
    return {"case": case.name, "machine": machine, "other": other, **figures, "held": held}


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, help="a file that gets lines of JSON as well")
    chosen = parser.parse_args()
    for case in CASES:
        line = measure(case, chosen.repeats)
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
