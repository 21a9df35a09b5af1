"""What a round costs as the number of clients grows and the cohort does not: rounds a second.

    python -m benchmarks.growth [--methods drfa ...] [--clients 1000 ...] [--rounds 1000]

Every method of the catalogue that draws a cohort, with the parameters of its trial: 100 clients a
round of four rows with ten features each, and a tiny model. Seconds are those of the process's CPU
time, so that others on the machine matter little, and of the second half of a run, where nothing is
compiled. A run hands its states from one block of rounds to the next, which copies them about every
half a second: time enough rounds. Prints one JSON line for each method and number of clients. A
million clients take about 3 GB.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.entry import Kind, MethodEntry
from fedloom.data.clients import Clients
from fedloom.parameters import parameters_of
from fedloom.rows import Rows

COHORT, ROWS, FEATURES = 100, 4, 10
TINY = fl.models.MLP((2,))

PROBLEMS: dict[Kind, fl.problems.Problem] = {
    "smooth": fl.problems.Logistic(l2=0.1),
    "composite": fl.problems.Logistic(l2=0.1, regulariser=fl.problems.L1(0.05)),
    "saddle": fl.problems.AUC(regulariser=fl.problems.L1(0.02)),
    "personal": fl.problems.Personal(TINY, TINY, 2, keep=(-1,), l2=0.1),
    "personal-alike": fl.problems.Personal(TINY, TINY, 1, keep=(-1,), l2=0.1),
}


def with_cohorts() -> dict[str, MethodEntry]:
    """The methods that ask some of their clients; parties of a vertical federation are few."""
    return {
        key: entry
        for key, entry in CATALOGUE.items()
        if entry.kind in PROBLEMS and "cohort" in {p.name for p in parameters_of(entry.cls)}
    }


def population(count: int) -> Clients:
    """So many clients with rows of their own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count * ROWS, FEATURES)).astype(np.float32)
    y = np.tile(np.arange(ROWS) % 2, count)
    names = tuple(map(str, range(count)))
    return Clients(Rows(x, y), np.full(count, ROWS), names, np.arange(2))


def rounds_a_second(entry: MethodEntry, clients: Clients, rounds: int) -> float:
    """Over the second half of a run of twice so many."""
    clock: list[float] = []
    fl.simulate(
        entry.cls(**entry.trial | {"cohort": COHORT}),
        PROBLEMS[entry.kind],
        clients,
        rounds=2 * rounds,
        batch_size=ROWS,
        eval_every=rounds,
        metrics=(),
        progress=False,
        on_evaluation=lambda _: clock.append(time.process_time()),
    )
    _, middle, end = clock
    return rounds / (end - middle)


def main() -> None:
    """Measure and print."""
    known = with_cohorts()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(known), choices=known)
    parser.add_argument("--clients", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=1000, help="that are timed")
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    chosen = parser.parse_args()
    for count in chosen.clients:
        clients = population(count)
        for key in chosen.methods:
            rate = rounds_a_second(known[key], clients, chosen.rounds)
            line = {"method": key, "clients": count, "rounds/s": round(rate, 1)}
            print(json.dumps(line), flush=True)
            if chosen.out:
                with chosen.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
