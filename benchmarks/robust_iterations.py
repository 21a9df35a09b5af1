"""Figures 4 and 5 of DRFA's paper against local iterations: one in a round of AFL, else ten.

Settings and seeds are those of `robust-adult-sex` and `robust-adult-race`, but for the rounds of
AFL: as many as the others have local iterations.
"""

from collections.abc import Iterator
from functools import partial

import fedloom as fl
from benchmarks.slope_points import Point, Study
from fedloom.experiments import papers, settings

METHODS = ("fedavg", "q_fedavg", "drfa", "afl")
SHOWN = (100, 200, 500, 1000, 2000, 5000, 10_000)  # local iterations
_BETWEEN = 100  # of them, from one evaluation to the next


def _worst(name: str) -> Iterator[Point]:
    """The worst client's accuracy after as many local iterations, whatever the rounds."""
    setup = settings.read(papers.available()[name])
    clients, given = setup.clients(), setup.options()
    options = {"batch_size": given["batch_size"], "metrics": ("accuracy",), "progress": False}
    for title in METHODS:
        steps = 1 if title == "afl" else 10
        rounds = {"rounds": given["rounds"] * 10 // steps, "eval_every": _BETWEEN // steps}
        for seed in range(setup.compare.seeds):
            method = setup.algorithms[title]
            run = fl.simulate(method, setup.problem, clients, seed=seed, **rounds, **options)
            for row in run.rows:
                if (done := int(row["round"]) * steps) in SHOWN:
                    yield Point(title, done, seed, round(row["accuracy_worst"], 5))


STUDIES = {
    study: Study("local iterations", "accuracy of the worst client", None, partial(_worst, name))
    for study, name in (
        ("robust-iterations", "robust-adult-sex"),
        ("robust-iterations-race", "robust-adult-race"),
    )
}
