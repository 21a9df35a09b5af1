"""`fl.check`: every law has a method that breaks it, and a right method breaks none."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from core.mistaken_methods import (
    BREAKERS,
    DrawsWithNumPy,
    Good,
    Hub,
    KeepsACounter,
    PrefersTheFirst,
    Right,
)
from fedloom.checking.laws import LAWS
from fedloom.checking.verdicts import BROKEN, INAPPLICABLE, KEPT, UNCHECKED
from fedloom.cohorts import everyone
from fedloom.errors import ParameterError
from fedloom.protocol import algorithm, ask, instance_of, param, parametrised, positive

PROBLEM = fl.problems.Logistic(l2=0.1)
CLIENTS = fl.data.from_arrays(
    [
        (np.array([[1.0, -0.5], [0.2, 0.3], [0.1, 1.1]]), np.array([0, 1, 0])),
        (np.array([[-0.7, 0.4], [0.9, 0.8]]), np.array([1, 0])),
        (np.array([[0.5, -1.2], [0.3, 0.6]]), np.array([1, 0])),
    ]
)


def checked(method, **options):
    options = {"rounds": 2, "batch_size": 1} | options
    return fl.check(method, problem=PROBLEM, clients=CLIENTS, **options)


def test_a_right_method_keeps_all_laws():
    report = checked(Good)  # a class: cohort and lr get small values
    assert report.ok, report
    assert [finding.verdict for finding in report.findings] == [KEPT] * len(LAWS)
    assert "cohort=3" in report.method and "decay" not in report.method


@algorithm
class Inherits(Good):
    """Its round is that of the class above."""

    def train(self, client, model, f, key, /):
        return client, -0.05 * f.grad(model, key)


@parametrised
class Damping:
    factor: float = param(positive, "what steps are multiplied by", default=0.5)
    power: Any = param(positive, "a number that is no float", default=2.0)


@algorithm
class Damped(Good):
    """A number in an object that it is given."""

    damping: Damping = param(instance_of(Damping), "how steps are damped", default=Damping())

    def train(self, client, model, f, key, /):
        return client, -(self.damping.factor**self.damping.power) * f.grad(model, key)


def test_a_method_that_inherits_its_round_is_checked_as_any_other():
    report = checked(Inherits, laws=["numbers"])
    assert report.ok and report.findings[0].verdict == KEPT, report
    assert "round" not in vars(Inherits)
    (found,) = checked(Damped, laws=["numbers"]).findings
    assert found.verdict == BROKEN
    assert found.reason.startswith("damping.power = 1.0 in the place of 2.0 needs a new program")


def blamed(cls, report):
    """What a report says of the one law that a method breaks."""
    assert [finding.law for finding in report.broken] == [BREAKERS[cls]], report
    (found,) = report.broken
    assert found.reason and found.example and "fl.check(" in found.code
    if found.law in ("purity", "seeds"):  # at the line that is to blame, without compiler's text
        at = {KeepsACounter: "/ len(COUNTER)", DrawsWithNumPy: ".normal(size=2)"}
        assert at.get(cls, "jax.random.normal(jax.random.key(3)") in found.line
        assert "lambda" not in str(found.difference) and "f64[" not in str(found.difference)
    return found


@pytest.mark.parametrize("cls", BREAKERS, ids=lambda cls: cls.__name__)
def test_a_mistake_is_caught_by_its_law(cls):
    blamed(cls, checked(cls, laws=[BREAKERS[cls]]))


# Eleven laws of a method take six seconds; those of a few are tried in every test run.
SOME = (KeepsACounter, PrefersTheFirst)
IN_TURN = [
    pytest.param(cls, marks=() if cls in SOME else pytest.mark.thorough, id=cls.__name__)
    for cls in BREAKERS
]


@pytest.mark.parametrize("cls", IN_TURN)
def test_a_mistake_is_caught_by_no_other_law(cls):
    report = checked(cls)
    if blamed(cls, report).law == "purity":
        assert {f.verdict for f in report.findings[2:]} == {UNCHECKED}


def test_the_laws_of_this_file_are_all_there_are():
    assert {*BREAKERS.values(), "contract"} == set(LAWS)


def test_a_broken_law_comes_with_numbers_and_code_that_shows_it(capsys):
    (found,) = checked(PrefersTheFirst, laws=["order"]).broken
    assert found.example == "1 round, clients with [1, 1] rows of 1 features"
    assert found.difference.array == "model[0]" and "round 1" in found.difference.where
    assert found.difference.expected != found.difference.got
    exec(compile(found.code, "code", "exec"), {})
    printed = capsys.readouterr().out
    assert "✗ order" in printed and found.example in printed


def test_a_report_shows_itself_everywhere():
    report = checked(PrefersTheFirst, laws=["order"])
    assert repr(report) == "<Report: PrefersTheFirst(): 1 broken>"
    assert "the order of clients is irrelevant" in str(report)
    assert "<pre>" in report._repr_html_() and "model[0]" in report._repr_html_()
    plain = json.loads(json.dumps(report.as_dict()))
    assert not plain["ok"] and plain["findings"][0]["difference"]["array"] == "model[0]"
    assert report["order"].verdict == BROKEN


class Tally(NamedTuple):
    model: Any
    count: Any


def mistaken(**changes):
    """A method with one mistake; `changes` are functions of its class."""
    body = {"round": _round, "__module__": __name__, "__annotations__": {}} | changes
    for name, function in changes.items():
        function.__name__ = name  # by which it is asked for
    return algorithm(type("Mistaken", (Right,), body))


def _round(self, hub, fed, key, /):
    replies = yield ask(self.train, hub.model, to=everyone(fed.n))
    return Hub(hub.model + replies.mean()), ()


def _raises(self, client, model, f, key, /):
    return client, model + f.nothing_of_the_kind


def _forgets_the_state(self, client, model, f, key, /):
    return -f.grad(model, key)


def _invents_a_state(self, client, model, f, key, /):
    return model, -f.grad(model, key)


def _looks_at_numbers(self, client, model, f, key, /):
    return client, -model if f.full_value(model) > 1 else model


def _uses_numpy(self, client, model, f, key, /):
    return client, np.tanh(model) + np.asarray(model)


def _yields_a_model(self, hub, fed, key, /):
    replies = yield hub.model
    return Hub(hub.model + replies.mean()), ()


def _asks_for_nothing_known(self, hub, fed, key, /):
    replies = yield ask(self.model, hub.model, to=everyone(fed.n))
    return Hub(hub.model + replies.mean()), ()


def _returns_one_thing(self, hub, fed, key, /):
    replies = yield ask(self.train, hub.model, to=everyone(fed.n))
    return Hub(hub.model + replies.mean())


def _grows(self, hub, fed, key, /):
    yield ask(self.train, hub.model, to=everyone(fed.n))
    return Hub(jnp.append(hub.model, 0.0)), ()


def _changes_type(self, hub, fed, key, /):
    yield ask(self.train, hub.model, to=everyone(fed.n))
    return Tally(hub.model, hub.count + 0.5), ()


def _counts(self, fed, key, /):
    return Tally(fed.init_model(key), jnp.zeros((), int))


def _explodes(self, hub, fed, key, /):
    replies = yield ask(self.train, hub.model, to=everyone(fed.n))
    return Hub(hub.model + replies.mean() / 0), ()


def _never_ends(self, hub, fed, key, /):
    while True:
        yield ask(self.train, hub.model, to=everyone(fed.n))


MISTAKES = {
    "raises": ({"train": _raises}, "nothing_of_the_kind", "f.nothing_of_the_kind"),
    "no state": ({"train": _forgets_the_state}, "train must return two values", "return -f.grad"),
    "new state": ({"train": _invents_a_state}, "state as it got it", "return model, -f.grad"),
    "python if": ({"train": _looks_at_numbers}, "Python `if`", "f.full_value(model) > 1"),
    "numpy": ({"train": _uses_numpy}, "NumPy function", "np.asarray(model)"),
    "no ask": ({"round": _yields_a_model}, "may only yield ask", "yield hub.model"),
    "unknown": ({"round": _asks_for_nothing_known}, "no client method", "yield ask(self.model"),
    "one thing": (
        {"round": _returns_one_thing},
        "must return two values, the hub's next state",
        "return Hub(",
    ),
    "shape": ({"round": _grows}, "a hub as it got it", "return Hub(jnp.append"),
    "type": (
        {"round": _changes_type, "init_hub": _counts},
        "a hub as it got it",
        "return Tally(hub.model",
    ),
    "diverges": ({"round": _explodes}, "not finite after round 1", "def _explodes"),
    "endless": ({"round": _never_ends}, "more than 100 times", "yield ask("),
}


@pytest.mark.parametrize("changes,reason,line", MISTAKES.values(), ids=MISTAKES)
def test_what_is_no_method_is_told_with_the_line(changes, reason, line):
    report = checked(mistaken(**changes))
    (found,) = report.broken
    assert found.law == "contract" and reason in found.reason, found
    assert Path(__file__).name in found.line and line in found.line
    assert {f.verdict for f in report.findings[1:]} == {UNCHECKED}


def test_laws_that_say_nothing_of_a_method_say_why():
    report = checked(mistaken(), laws=["sweeps", "secrecy"])
    assert report["sweeps"].verdict == INAPPLICABLE and "float" in report["sweeps"].reason
    robust = fl.algorithms.Robust(fl.algorithms.FedAvg(lr=0.1), fl.aggregators.Median())
    assert checked(robust, laws=["secrecy"])["secrecy"].verdict == INAPPLICABLE


def test_what_cannot_be_checked_is_refused():
    class Bare(Right):
        def round(self, hub, fed, key, /):
            yield

    for wrong, complaint in ((3, "must be an object"), (Bare, "does not carry @algorithm")):
        with pytest.raises(ParameterError, match=complaint):
            fl.check(wrong)
    with pytest.raises(ParameterError, match="Did you mean 'order'"):
        checked(Good, laws=["oder"])
    with pytest.raises(ParameterError, match="for saddle problems"):
        checked(fl.algorithms.LocalSGDA)
