"""Three hospitals with names of patients in their tables, and what a submitter may ask of them."""

import numpy as np
import polars as pl

from federation import harness
from federation.harness import NAMES, SMALL, Wire, settings
from fedloom.federation.job import job_of
from fedloom.federation.policy_file import policy_text, set_data

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
ALLOWED = {
    "methods": ["fedavg"],
    "problems": ["logistic", "multinomial", "least_squares"],
    "features": ["age", "ward"],
    "labels": {"ill": ["no", "yes"]},
    **{**SMALL, "least_count": 5},
}
PATIENTS = [f"Patient {i}" for i in range(59)] + ["Patient 0"]  # one of them twice


def hospitals(folder, chosen, change=lambda table: table, **policy):
    """Three hospitals with names of patients in their tables, and the run of a submitter."""
    rng = np.random.default_rng(4)
    wires = {}
    for name in NAMES:
        kit = folder / name
        kit.mkdir(parents=True)
        (kit / "policy.toml").write_text(policy_text(ALLOWED | policy))
        table = pl.DataFrame(
            {
                "name": [f"{name} {patient}" for patient in PATIENTS],
                "age": rng.integers(20, 90, 60),
                "ward": ["red"] * 30 + ["blue"] * 30,
                "ill": rng.permutation(["no"] * 40 + ["yes"] * 20),
            }
        )
        set_data(kit, folder / f"{name}.csv")
        change(table).write_csv(folder / f"{name}.csv")
        wires[name] = Wire(kit)
    return harness.conductor(job_of(chosen, "a-run"), wires, folder), wires


def chosen(data, **changes):
    words = {"label": "ill", "features": ["age", "ward"], "categories": {"ward": ["blue", "red"]}}
    return settings(algorithm=FEDAVG, data=words | data, **changes)


def raw(data, **changes):
    table = {"label": "ill", "sites": "tables", "ignore": ["name"]}
    return settings(algorithm=FEDAVG, data=table | data, **changes)


def rare(table):
    """A word, a class and a gap that three rows have."""
    return table.with_columns(
        ward=pl.Series(["green"] * 3 + table["ward"].to_list()[3:]),
        ill=pl.Series(["yes"] * 3 + ["no"] * 57),
        age=pl.Series([None, None, None, *table["age"].to_list()[3:]]),
    )
