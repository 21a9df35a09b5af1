"""A federation without a network: the server's conductor calls the sites' desks directly."""

from pathlib import Path

import jax
import numpy as np
import pytest

from federation.authority import certify
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.data.clients import from_arrays
from fedloom.errors import FederationError
from fedloom.experiments import building, registries
from fedloom.experiments.locations import Location
from fedloom.experiments.settings import parse
from fedloom.federation.job import job_of
from fedloom.federation.people import trial
from fedloom.federation.policy_file import policy_text, set_data
from fedloom.federation.server.assembly import Assembly
from fedloom.federation.server.conductor import Conductor
from fedloom.federation.server.sites import SiteError
from fedloom.federation.site.service import SiteService

NAMES = ("berlin", "lyon", "torino")
MORE = (*NAMES, "utrecht", "wien")
SIZES = (8, 14, 14, 8, 14)  # unequal, and few different ones: each takes programs of its own
ALGORITHM = {"key": "scaffold", "lr": 0.2, "local_steps": 3}
SMALL = {
    "min_sites": 1,
    "min_rows": 1,
    "min_batch": 1,
    "least_count": 1,
}  # what policies of tiny sites must allow
RUN = {"rounds": 6, "batch_size": 4, "eval_every": 3}

PROJECT = """
name = "hospitals"
sites = ["berlin", "lyon"]

[server]
host = "localhost"
port = 8002

[people]
"anna@example.org" = "lead"

[policy]
methods = ["fedavg"]
problems = ["logistic"]
min_sites = 2
"""


def clients(sites: int = 3):
    rng = np.random.default_rng(5)
    parts = [
        (rng.normal(i / 2, 1, (rows, 3)).astype(np.float32), rng.integers(0, 2, rows))
        for i, rows in enumerate(SIZES[:sites])
    ]
    for _, y in parts:
        y[:2] = (0, 1)
    return from_arrays(parts, names=MORE[:sites])


def settings(**changes):
    tables = {
        "data": {"label": trial.LABEL},
        "problem": {"kind": "logistic", "l2": 0.1},
        "algorithm": ALGORITHM,
        "run": RUN,
        "federation": {"timeout": 30},
    }
    for name, table in changes.items():
        whole = name in ("algorithm", "wrapper")
        tables[name] = table if whole else {**tables[name], **table}
    return parse(tables, Location("test", ""))


PROBLEMS = {
    "saddle": {"kind": "auc"},
    "personal": {"kind": "personal", "model": {"kind": "mlp", "hidden": [3]}},
}


def settings_for(key, **changes):
    """Settings with the example of a method of the catalogue, on a problem that it is for."""
    entry = CATALOGUE[key]
    table = building.describe(entry.example(), registries.ALGORITHMS, tag="key")
    tables = {"problem": PROBLEMS.get(entry.example().takes, {}), "algorithm": table}
    return settings(**tables, **changes)


def same_to_rounding(model, other):
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)  # noqa: E731
    jax.tree.map(close, model, other)


def policies(folder: Path, held, **policy) -> list[Path]:
    """A kit folder for each client, with its rows and its policy."""
    named = {"features": ["x0", "x1", "x2"], "labels": {trial.LABEL: [0, 1]}}
    allowed = {
        **{"methods": ["scaffold", "fedavg"], "problems": ["logistic"], **SMALL, **named},
        **policy,
    }
    kits = []
    for i, name in enumerate(held.names):
        kit = folder / name
        kit.mkdir(parents=True)
        (kit / "policy.toml").write_text(policy_text(allowed))
        set_data(
            kit, trial.write_rows(folder / "rows" / f"{name}.parquet", held.of(i), held.labels)
        )
        kits.append(kit)
    return kits


class Wire:
    """Calls to one service; a test may cut the line, or restart the site behind it."""

    def __init__(self, kit: Path):
        self.kit = kit
        self.service = SiteService(kit)
        self.cut = False
        self.before = lambda verb, facts: None  # a test's own interference
        self.after = lambda verb, facts: None

    def restart(self):
        self.service = SiteService(self.kit)

    def __call__(self, verb, facts, body, seconds):
        self.before(verb, facts)
        if self.cut:
            raise SiteError("TimeoutError", "no answer")
        try:
            answer = self.service.call(verb, facts, body)
        except Exception as error:
            raise SiteError(type(error).__name__, str(error)) from error
        self.after(verb, facts)
        return answer


def refused(conductor, complaint):
    """Run to the end that sites bring about, and find why in what was said of it."""
    with pytest.raises(FederationError) as error:
        conductor.run()
    said = [*conductor.notes, str(error.value)]
    assert any(complaint in text for text in said), said
    return said


def lying(line, verb, change):
    """The site behind a line says something else, in its answers to a verb."""
    answer = line.service.call

    def call(asked, facts, body):
        text, data = answer(asked, facts, body)
        return (change(text), data) if asked == verb else (text, data)

    line.service.call = call


def hello(conductor, name):
    """What the server of a run says to a site first."""
    return Assembly(conductor.job, None, conductor.sites, print)._hello(name)


def settled(conductor):
    """Who takes part in a run, before its first round."""
    all = conductor._of_all()
    Assembly(conductor.job, all, conductor.sites, conductor.note).gather(None, None)
    return all.roster.names


def restarted(wires):
    """The same wires with fresh sites behind them: every job has processes of its own."""
    for wire in wires.values():
        wire.restart()
    return wires


def federation(folder: Path, chosen, *, run="a-run", resume=False, wires=None, held=None, **policy):
    """A conductor over desks; `wires` of an earlier one may be used again."""
    if wires is None:
        kits = policies(folder, held or clients(), **policy)
        for kit in kits if chosen.federation.secure_aggregation else ():
            certify(kit)
        wires = {kit.name: Wire(kit) for kit in kits}
    return conductor(job_of(chosen, run, resume), wires, folder), wires


def conductor(job, wires, folder, submitter="lead@fedloom.local"):
    """A job at the server in a folder, over fresh sites."""
    return Conductor(job, restarted(wires), folder / "server", submitter=submitter)
