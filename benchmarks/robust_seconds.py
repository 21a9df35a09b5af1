"""Figure 4 of DRFA's paper against seconds: Adult by sex, over a real federation.

A server and ten sites as processes on loopback with TLS. The methods run one after the other over
the same sites, so that their seconds are those of one machine in one hour; sites compute at the
same time as far as there are cores. The settings are those of `robust-adult-sex`, with one seed.
"""

import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.slope_points import Point, Study
from fedloom.experiments import papers, settings
from fedloom.experiments.locations import Location
from fedloom.federation.people import submission, trial

ROUNDS = {"fedavg": 300, "q_fedavg": 300, "afl": 600, "drfa": 300}


def _seconds() -> Iterator[Point]:
    path = papers.available()["robust-adult-sex"]
    clients = settings.read(path).clients()
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    methods = {table.get("name", table["key"]): table for table in tables["algorithm"]}
    with tempfile.TemporaryDirectory() as name:
        kits = Path(name) / "kits"
        made = trial.build(kits, clients, methods=list(ROUNDS), problems=["logistic"])
        with trial.up(made):
            for method, rounds in ROUNDS.items():
                chosen = _asked(tables, methods[method], rounds, [kit.name for kit in made.sites])
                result = submission.follow(made.lead, chosen, Path(name) / method, say=print)
                for row in result.rows:
                    yield Point(method, round(row["seconds"], 1), 0, row["accuracy_worst"])


def _asked(
    tables: dict[str, Any], method: dict[str, Any], rounds: int, sites: list[str]
) -> settings.Settings:
    """What is submitted: the problem of the settings file with this method, over these sites."""
    asked = {
        "data": {"label": trial.LABEL},
        "problem": tables["problem"],
        "algorithm": method,
        "run": {**tables["run"], "rounds": rounds, "metrics": ["accuracy"]},
        "federation": {"sites": sites},
    }
    return settings.parse(asked, Location("benchmark", ""))


STUDIES = {
    "robust-seconds": Study("seconds", "accuracy of the worst client", None, _seconds),
}
