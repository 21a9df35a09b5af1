"""Three parties that hold other columns of the same people, with the files that they would have."""

import numpy as np
import polars as pl

from federation import harness
from federation.authority import certify
from federation.harness import Wire
from fedloom.experiments.locations import Location
from fedloom.experiments.settings import parse
from fedloom.federation.job import job_of
from fedloom.federation.policy_file import policy_text, set_data, set_policy
from fedloom.preparation import PartyFiles

NAMES = ("laboratory", "clinic", "insurer")
ALGORITHM = {"key": "egvfl", "beta_trick": True}
DATA = {"id": "who", "label": "ill", "join": "plain", "test_fraction": 0.2}
OWN = {"id": "who", "labels": {"ill": ["no", "yes"]}}
FEATURES = ["marker", "ward", "age", "income", "claims"]
ALLOWED = {
    **{"methods": ["egvfl"], "problems": ["vertical"], "plain_ids": True},
    **{"features": FEATURES, **OWN},
}


def write_files(folder):
    """A file for each party; they know 60 people in common, each in an order of its own."""
    rng = np.random.default_rng(3)
    marker, ward = rng.normal(size=80), rng.choice(["red", "blue"], 80)
    income = rng.normal(size=(80, 2))
    score = marker + (ward == "red") - income[:, 0] + rng.normal(0, 0.2, 80)
    columns = {
        "laboratory": {"marker": marker, "ill": np.where(score > 0.5, "yes", "no")},
        "clinic": {"ward": ward, "age": rng.normal(50, 9, 80)},
        "insurer": {"income": income[:, 0], "claims": income[:, 1]},
    }
    known = {"laboratory": range(70), "clinic": range(5, 80), "insurer": range(10, 80)}
    people = np.array([f"p{i}" for i in range(80)])
    folder.mkdir(parents=True)
    for name in NAMES:
        rows = rng.permutation(list(known[name]))
        table = pl.DataFrame({"who": people, **columns[name]})
        table[rows].write_parquet(folder / f"{name}.parquet")
    return folder


def settings(**changes):
    tables = {
        "data": DATA,
        "problem": {"kind": "vertical", "loss": "logistic", "l2": 0.5},
        "algorithm": ALGORITHM,
        "run": {"rounds": 20, "eval_every": 10, "metrics": ["accuracy", "loss", "objective"]},
        "federation": {"timeout": 30, "sites": list(NAMES)},
    }
    for name, table in changes.items():
        tables[name] = {**tables[name], **table} if name != "algorithm" else table
    return parse(tables, Location("test", ""))


def together(files, chosen):
    """The data as one simulation has them, with the parties in the federation's order."""
    made = PartyFiles(parties=str(files), **chosen.tables["data"]).load()
    return made.in_order([made.names.index(name) for name in NAMES])


def federation(folder, chosen, *, run="a-run", resume=False, wires=None, labels=True, **policy):
    """A label party's server over the desks of three parties, without a network."""
    if wires is None:
        files, wires = write_files(folder / "files"), {}
        for name in NAMES:
            kit = folder / name
            kit.mkdir()
            if chosen.federation.secure_aggregation:
                certify(kit)
            (kit / "policy.toml").write_text(policy_text(ALLOWED | policy))
            set_data(kit, files / f"{name}.parquet")
            wires[name] = Wire(kit)
        if labels:
            (folder / "server").mkdir()
            set_data(folder / "server", files / "laboratory.parquet")
            set_policy(folder / "server", **OWN)
    return harness.conductor(job_of(chosen, run, resume), wires, folder), wires
