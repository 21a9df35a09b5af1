"""Who gains when four hospitals learn together: `python -m benchmarks.hospitals`.

Heart disease at Cleveland, Budapest, Zurich with Basel, and Long Beach (`fl.data.load("heart")`),
as in the first stop of `fedloom demo`, over twenty divisions into training and test rows: each
hospital alone, one model for all by FedAvg, and models of their own that learn from each other by
QuPeD. Step sizes, steps and rounds are those of the tour, the same for all; nothing was tuned.

Lines of JSON go to the standard output, the table to the standard error.
"""

import json
import sys

import numpy as np

import fedloom as fl
from fedloom.experiments import tour

SPLITS = range(20)


def main() -> None:
    """Run every method on every division."""
    stop, rows = tour.hospitals(), fl.data.load("heart")
    losses: dict[str, list[list[float]]] = {name: [] for name in stop.methods}
    for split in SPLITS:
        clients = fl.data.partition(rows, "client", test_fraction=0.3, seed=split)
        for name, method in stop.methods.items():
            options = {**stop.options, "seed": split, "eval_every": stop.options["rounds"]}
            result = fl.simulate(method, stop.problem, clients, progress=False, **options)
            of_clients = result.clients["loss"].to_list()
            losses[name].append(of_clients)
            print(json.dumps({"split": split, "method": name, "loss": of_clients}), flush=True)
    show(losses, clients.names)


def show(losses: dict[str, list[list[float]]], names: tuple[str, ...]) -> None:
    """Mean losses of each hospital, and how often it gains over being alone."""
    alone = np.array(losses["each alone"])
    for method, values in losses.items():
        mean, gains = np.mean(values, axis=0), (np.array(values) < alone).sum(axis=0)
        said = (
            f"{n} {m:.3f} ({g} of {len(values)})"
            for n, m, g in zip(names, mean, gains, strict=True)
        )
        print(f"{method:12} mean {mean.mean():.3f}: {', '.join(said)}", file=sys.stderr)


if __name__ == "__main__":
    main()
