"""Types to lean on: every method says what f and fed are, and what it is given is just that."""

import inspect
from typing import Any, get_type_hints

import pytest

from fedloom import oracles
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cohorts import everyone
from fedloom.oracles import (
    ClientOracle,
    FedView,
    PartyOracle,
    PersonalOracle,
    RowOracle,
    SaddleFedView,
    SaddleOracle,
    SmoothOracle,
    VerticalFedView,
)
from fedloom.population import assemble
from fedloom.protocol import Algorithm, algorithm, ask
from laws.trials import BATCH, trial

GIVEN = {  # by the kind of problem that a method takes: f and fed
    "smooth": (SmoothOracle, FedView),
    "saddle": (SaddleOracle, SaddleFedView),
    "personal": (PersonalOracle, FedView),
    "vertical": (PartyOracle, VerticalFedView),
}


def untyped(cls):
    """Where a method's f or fed is not what methods of its kind are given."""
    f, fed = GIVEN[cls.takes]
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if function is vars(Algorithm).get(name) or name.startswith("__"):
            continue  # the base leaves them open, and says why
        hints = get_type_hints(function)
        for parameter in inspect.signature(function).parameters:
            if (parameter == "f" and hints.get("f", Any) is not f) or (
                parameter == "fed" and hints.get("fed", Any) is not fed
            ):
                yield f"{cls.__name__}.{name}: {parameter}"


@pytest.mark.parametrize("key", CATALOGUE)
def test_every_method_says_what_f_and_fed_are(key):
    entry = CATALOGUE[key]
    assert list(untyped(entry.cls)) == []
    for name in entry.example().client_methods():
        *_, f, _ = inspect.signature(getattr(entry.cls, name)).parameters
        assert f == "f"  # so that none goes by another name


def test_a_method_that_does_not_is_found():
    @algorithm
    class Vague(Algorithm):
        def init_hub(self, fed: Any, key, /):
            return fed.init_model(key)

        def round(self, hub, fed: FedView, key, /):
            yield ask(self.train, hub, to=everyone(fed.n))
            return hub, ()

        def train(self, client, model, f, key, /):
            return client, f.grad(model, key)

    assert list(untyped(Vague)) == ["Vague.init_hub: fed", "Vague.train: f"]


@pytest.mark.parametrize("kind", GIVEN)
def test_what_engines_hand_out_is_what_methods_are_promised(kind):
    tried = trial(kind)
    federation = assemble(tried.problem, tried.clients, BATCH, "float32")
    oracle, view = GIVEN[kind]
    assert isinstance(federation.fed, view)
    for group in federation.groups:
        f = group.objective(0)
        assert isinstance(f, oracle) and isinstance(f, ClientOracle)
        assert isinstance(f, RowOracle) == (kind != "vertical")
        others = {"smooth": SaddleOracle, "saddle": SmoothOracle}.get(kind, SaddleOracle)
        assert not isinstance(f, others)
    assert isinstance(federation.fed, VerticalFedView) == (kind == "vertical")


def test_every_promise_says_what_it_is():
    kinds = [
        kind
        for _, kind in inspect.getmembers(oracles, inspect.isclass)
        if kind.__module__ == oracles.__name__
    ]
    assert {SmoothOracle, FedView} <= set(kinds)
    for kind in kinds:
        members = [m for name, m in vars(kind).items() if not name.startswith("_")]
        assert members and all(inspect.getdoc(member) for member in members), kind
