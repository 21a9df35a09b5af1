"""Three sites with raw tables, each with a scale, words and gaps of its own."""

import numpy as np
import polars as pl

from federation import harness
from federation.harness import NAMES, SMALL
from fedloom.federation.job import job_of
from fedloom.federation.policy_file import policy_text, set_data

PROBLEM = {"kind": "logistic", "l2": 0.1, "intercept": True}
ALLOWED = {
    "methods": ["scaffold"],
    "problems": ["logistic"],
    "features": ["age", "ward", "dose"],
    "labels": {"ill": ["no", "yes"]},
    **SMALL,
}


def write_tables(folder):
    """A table for each site, with a scale, words and gaps of its own."""
    rng = np.random.default_rng(8)
    folder.mkdir(parents=True)
    for i, name in enumerate(NAMES):
        n = 20 + 5 * i
        age = rng.normal(50 + 10 * i, 8, n)
        ages = [None if k == 3 else float(a) for k, a in enumerate(age)]
        ward = rng.choice(["red", "blue", "green"][: 2 + (i == 2)], n)
        ill = np.where(age + 9 * (ward == "red") + rng.normal(0, 3, n) > 58 + 10 * i, "yes", "no")
        table = pl.DataFrame({"age": ages, "ward": ward, "dose": rng.normal(0, 1e-3, n)})
        table.with_columns(ill=pl.Series(ill)).write_csv(folder / f"{name}.csv")
    return folder


def settings(folder, **changes):
    data = {"sites": str(folder / "tables"), "label": "ill", "test_fraction": 0.25}
    return harness.settings(data={**data, **changes.pop("data", {})}, problem=PROBLEM, **changes)


def federation(folder, chosen, *, wires=None, resume=False, **policy):
    if wires is None:
        tables, wires = write_tables(folder / "tables"), {}
        for name in NAMES:
            kit = folder / name
            kit.mkdir()
            (kit / "policy.toml").write_text(policy_text(ALLOWED | policy))
            set_data(kit, tables / f"{name}.csv")
            wires[name] = harness.Wire(kit)
    job = job_of(chosen, "a-run", resume)
    assert job.tables["data"]["sites"] == "*"  # where the simulator finds files is not sent
    return harness.conductor(job, wires, folder), wires


def two_needed(folder, **policy):
    """The sites of a run that goes on without one of them."""
    return federation(folder, settings(folder, federation={"min_sites": 2}), **policy)
