"""A round's work is that of its cohort, whoever else there is; and what docs/performance.md says.

Times are for `benchmarks/growth.py`. Here the compiled rounds are read: what is as long as the
federation has clients may be neither sorted nor copied in every round.
"""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks.growth import COHORT, PROBLEMS, ROWS, population, with_cohorts
from fedloom import draws
from fedloom.pytrees import payload_bytes
from fedloom.rounds import mapping
from fedloom.simulator.task import Task

DOCS = Path(__file__).parents[1] / "docs"
CLIENTS = 1237  # like nothing else in a program


def compiled_rounds(key, n=CLIENTS):
    """A method's compiled rounds, and the states that they are given."""
    entry = with_cohorts()[key]
    method = entry.cls(**entry.trial | {"cohort": COHORT})
    task = Task(
        method, PROBLEMS[entry.kind], population(n), batch_size=ROWS, metrics=(),
        precision="float32", optimum=None, devices=1, deterministic=True,
    )  # fmt: skip
    hub, states, _ = task.opening(method, task.federation, draws.key(0), plan=task.plan)
    ends = (jnp.asarray(0, jnp.int32), jnp.asarray(5, jnp.int32))
    rounds = (method, task.federation, hub, states, draws.key(0), *ends)
    return task.rounds.lower(*rounds, plan=task.plan).compile(), states


def in_every_round(key, n=CLIENTS):
    """The lines of a method's compiled rounds that are in no entry: those in the loop."""
    text = compiled_rounds(key, n)[0].as_text()
    assert f"[{n}" in text
    return text[: text.index("\nENTRY")].splitlines()


def copies(lines, n=CLIENTS):
    """Of arrays with a row for each client."""
    return [line for line in lines if re.search(rf"\[{n},\d+\]\S* copy\(", line)]


def test_no_round_copies_the_states_of_all_clients(monkeypatch):
    """FedDR's reply reads a state that its steps do not: left alone, XLA reads it too late."""
    assert copies(in_every_round("feddr")) == []
    monkeypatch.setattr(mapping, "_taken", lambda state, ids: jax.tree.map(lambda s: s[ids], state))
    others = CLIENTS + 2  # a program of their own
    assert copies(in_every_round("feddr", others), others) != []


def test_no_block_of_rounds_copies_the_states_of_all_clients():
    """It is given the states, and writes over them."""
    program, states = compiled_rounds("feddr")
    text = program.as_text()
    assert copies(text[text.index("\nENTRY") :].splitlines()) == []
    needs = program.memory_analysis()
    assert needs.alias_size_in_bytes >= payload_bytes(states)
    assert needs.temp_size_in_bytes < payload_bytes(states)


def test_drfa_sorts_nothing_and_adds_up_no_weights_one_by_one():
    lines = in_every_round("drfa")
    assert [line for line in lines if re.search(r" sort\(", line)] == []
    running = [line for line in lines if " reduce-window(" in line and f"[{CLIENTS}]" in line]
    assert running == []


def test_the_table_is_that_of_the_lines():
    page = (DOCS / "performance.md").read_text()
    part = page.split("## Growth with the number of clients")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in part.splitlines()
        if "|" in line
    ]
    numbers = [int(cell.replace(",", "")) for cell in rows[0][1:]]
    shown = {
        (row[0], n): cell
        for row in rows[2:]
        for n, cell in zip(numbers, row[1:], strict=True)
        if cell
    }
    measured = {}
    for name, suffix in (("growth", ""), ("growth-before", ", before")):
        for text in (DOCS / "verification" / f"{name}.jsonl").read_text().splitlines():
            line = json.loads(text)
            rate = line["rounds/s"]
            written = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
            measured[f"`{line['method']}`{suffix}", line["clients"]] = written
    assert shown == measured
