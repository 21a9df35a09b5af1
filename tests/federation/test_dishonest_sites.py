"""Answers that no honest site gives: they cost that site, and nobody else."""

import json

import numpy as np
import pytest
from safetensors.numpy import save

from federation import harness, parties, raw_tables
from federation.harness import federation, lying, settings
from fedloom.errors import FederationError
from fedloom.exchange import wire
from fedloom.federation.server.sites import SiteError

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
RUN = {"rounds": 2, "eval_every": 1}


BEYOND = {
    "a metric of 400 digits": ("measure", lambda text: '{"loss": 1' + "0" * 400 + "}"),
    "a noise of 400 digits": (
        "hello",
        lambda text: text.replace('"privacy": null', '"privacy": [1' + "0" * 400 + ", 0.5]"),
    ),
    "a noise whose square is too large": (
        "hello",
        lambda text: text.replace('"privacy": null', '"privacy": [1e300, 1e-5]'),
    ),
    "half a character": ("hello", lambda text: text.replace('"x1"', '"\\ud800"')),
    "labels of 400 digits": (
        "hello",
        lambda text: text.replace("[0, 1]", "[0, 1" + "0" * 400 + "]"),
    ),
    "no text": ("hello", lambda text: 3),
    "no text in a letter": ("letter", lambda text: None),
    "no text of metrics": ("measure", lambda text: [1]),
    "a class that no row has": (
        "hello",
        lambda text: json.dumps(
            {**json.loads(text), "labels": [0, 1, 2], "counts": [*json.loads(text)["counts"], 0]}
        ),
    ),
}


@pytest.mark.parametrize("verb,change", BEYOND.values(), ids=BEYOND)
def test_what_is_beyond_reason_costs_that_site_only(verb, change, tmp_path):
    chosen = settings(algorithm=FEDAVG, run=RUN, federation={"min_sites": 2})
    conductor, wires = federation(tmp_path, chosen)
    lying(wires["lyon"], verb, change)
    result = conductor.run()
    assert result.status == "done" and {"berlin", "torino"} <= set(result.client_names)


def proposal(change):
    def changed(text):
        facts = json.loads(text)
        said = json.loads(facts["proposal"])
        change(said)
        return json.dumps({**facts, "proposal": json.dumps(said)})

    return changed


TABLES = {
    "half a character": proposal(lambda said: said["columns"]["ward"]["words"].append("\ud800")),
    "numbered classes": proposal(lambda said: said["label"].update(classes=[1, 2])),
    "no classes": proposal(lambda said: said["label"].update(classes=None)),
    "a kind that is a list": proposal(lambda said: said["columns"]["ward"].update(kind=["word"])),
    "an extra class": proposal(lambda said: said["label"]["classes"].append("maybe")),
    "a thousand classes": proposal(
        lambda said: said["label"].update(classes=[f"c{i}" for i in range(1000)])
    ),
}


@pytest.mark.parametrize("change", TABLES.values(), ids=TABLES)
def test_a_proposal_beyond_reason_costs_that_site_only(change, tmp_path):
    conductor, wires = raw_tables.two_needed(tmp_path)
    lying(wires["lyon"], "hello", change)
    result = conductor.run()
    assert result.client_names == ("berlin", "torino")


@pytest.mark.parametrize(
    "exchange,name,number",
    [
        *((1, name, n) for name in ("present", "words", "missing") for n in (-1, 99, 0.5)),
        *((1, "total", n) for n in (1e99, -1e99)),
        *((2, "value", n) for n in (-1.0, 1e300)),
    ],
)
def test_sums_beyond_reason_cost_that_site_only(exchange, name, number, tmp_path):
    conductor, wires = raw_tables.two_needed(tmp_path)
    answer = wires["lyon"].service.call

    def call(verb, facts, body):
        text, data = answer(verb, facts, body)
        if verb == "meet" and json.loads(facts).get("exchange") == exchange:
            told = wire.read(data)
            data = save(told | {name: np.full_like(told[name], number)})
        return text, data

    wires["lyon"].service.call = call
    assert harness.settled(conductor) == ("berlin", "torino")


def test_a_party_that_says_nonsense_is_named(tmp_path):
    conductor, wires = parties.federation(tmp_path, parties.settings())
    lying(wires["clinic"], "measure", lambda text: "{}")
    with pytest.raises(FederationError, match="the metrics of clinic make no sense"):
        conductor.run()


def test_texts_of_sites_are_short_and_plain():
    text = str(SiteError("RefusedError", "\x1b[31mred\nline " + "x" * 10**6))
    assert len(text) <= 1000 and text.isprintable()
