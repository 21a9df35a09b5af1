"""Mistakes in Python are answered as well as those in a settings file: what is meant, at once."""

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import ParameterError, ProtocolError, UnchangeableError
from fedloom.protocol import Algorithm, algorithm, ask

ROOMS = "algorithms cohorts data deploy local models operators oracles preparation problems"
ROWS = [(np.eye(3), np.array([0, 1, 0]))] * 3
CLIENTS = fl.data.from_arrays(ROWS)
PROBLEM = fl.problems.Logistic()
METHOD = fl.algorithms.FedAvg(lr=0.1)


@pytest.mark.parametrize(
    "room,typo,meant",
    [
        (fl, "problms", "problems"),
        (fl.algorithms, "FedAgv", "FedAvg"),
        (fl.problems, "Logisitc", "Logistic"),
        (fl.data, "partitoin", "partition"),
        (fl.models, "MPL", "MLP"),
        (fl.protocol, "algoritm", "algorithm"),
        (fl.compressors, "TopKK", "TopK"),
        (fl.sklearn, "FederatedClasifier", "FederatedClassifier"),
    ],
)
def test_a_typo_of_a_public_name_is_answered_with_the_name(room, typo, meant):
    with pytest.raises(AttributeError, match=rf"{typo!r}. Did you mean {meant!r}\?"):
        getattr(room, typo)
    assert not hasattr(room, "_nothing")


@pytest.mark.parametrize(
    "name", ["", *ROOMS.split(), "protocol", "aggregators", "compressors", "sklearn"]
)
def test_dir_shows_what_is_public_and_nothing_else(name):
    room = getattr(fl, name) if name else fl
    assert {entry for entry in dir(room) if not entry.startswith("__")} == set(room.__all__)


def test_all_missing_and_unknown_parameters_are_told_at_once():
    with pytest.raises(ParameterError) as caught:
        fl.algorithms.FedDR(stp=0.1)
    said = str(caught.value)
    assert "FedDR has no parameter 'stp'. Did you mean 'step'?" in said
    assert "FedDR needs step: " in said and "; and lr: step size" in said
    assert said.endswith("Write FedDR(step=..., lr=...).")
    with pytest.raises(ParameterError, match="FedAvg is given lr twice"):
        fl.algorithms.FedAvg(0.1, lr=0.2)
    with pytest.raises(ParameterError, match="takes 5 parameters; got 6 values"):
        fl.algorithms.FedAvg(0.1, 1, None, 1.0, 5, 6)
    assert next(iter(inspect.signature(fl.algorithms.FedAvg).parameters)) == "lr"


@pytest.mark.parametrize("value", [[0.1, 0.2], (0.1,), {}, object(), np.array([0.1, 0.2])])
def test_a_number_is_no_list(value):
    with pytest.raises(ParameterError, match="FedAvg: lr must be a number > 0"):
        fl.algorithms.FedAvg(lr=value)


def test_nothing_is_written_onto_a_method():
    with pytest.raises(UnchangeableError, match=r"FedAvg.count cannot be set.*to the\s+state"):
        METHOD.count = 1
    with pytest.raises(UnchangeableError):
        del METHOD.lr


@pytest.mark.parametrize(
    "arguments,parts",
    [
        ((fl.algorithms.FedAvg, PROBLEM, CLIENTS), ["the class FedAvg", "Write FedAvg(lr=...)"]),
        (("fedavg", PROBLEM, CLIENTS), ["got 'fedavg'", "write fl.algorithms.FedAvg(lr=...)"]),
        ((PROBLEM, METHOD, CLIENTS), ["got a Logistic", "(method, problem, clients)"]),
        ((None, PROBLEM, CLIENTS), ["got None", "FedAvg(lr=0.1)"]),
        ((METHOD, fl.problems.Logistic, CLIENTS), ["the class Logistic", "Write Logistic()"]),
        ((METHOD, CLIENTS, PROBLEM), ["got a Clients", "(method, problem, clients)"]),
        ((METHOD, "logistic", CLIENTS), ["got 'logistic'", "fl.problems.Logistic(l2=1e-3)"]),
        ((METHOD, PROBLEM, fl.data.load("iris")), ["got a Dataset", "fl.data.partition("]),
        ((METHOD, PROBLEM, ROWS), ["got a list", "fl.data.from_arrays("]),
        ((METHOD, PROBLEM, PROBLEM), ["got a Logistic", "(method, problem, clients)"]),
        ((METHOD, PROBLEM, "digits"), ["got 'digits'", "fl.data.partition"]),
    ],
)
def test_wrong_objects_are_answered_with_what_to_write(arguments, parts):
    with pytest.raises(ParameterError) as caught:
        fl.simulate(*arguments)
    for part in ["simulate: ", *parts]:
        assert part in str(caught.value)


def test_test_rows_of_which_there_are_none_are_no_test_rows():
    iris = fl.data.load("iris")
    few = fl.data.partition(iris, "iid", clients=40, test_fraction=0.1)  # of 4 rows at the most
    none = fl.data.partition(iris, "features", parties=2, test_fraction=0.001)
    for clients in (few, none):
        with pytest.raises(ParameterError, match=r"simulate: .* metric would be nan\. Raise"):
            fl.simulate(METHOD, PROBLEM, clients)


@pytest.mark.parametrize("run", [fl.compare, lambda *a, **o: fl.sweep(*a, over={"lr": [1]}, **o)])
@pytest.mark.parametrize(
    "methods,options,parts",
    [
        ([METHOD], {}, ["algorithms must be methods by their names", '{"FedAvg": FedAvg(...)}']),
        (METHOD, {}, ["got a FedAvg", '{"FedAvg": FedAvg(...)}']),
        ({}, {}, ["got none"]),
        ({"a": fl.algorithms.FedAvg}, {}, ["algorithms['a'] must be a method", "FedAvg(lr=...)"]),
        ({"a": METHOD}, {"seeds": 2}, ["seeds must be a list", "seeds=range(2)"]),
        ({"a": METHOD}, {"seeds": ()}, ["seeds must be a list", "(0, 1, 2)"]),
        ({"a": METHOD}, {"seeds": ["a"]}, ["seeds must be a list"]),
        ({"a": METHOD}, {"seed": 3}, ["seed is of a single run", "Write seeds=(0, 1, 2)"]),
        ({"a": METHOD}, {"progress": False}, ["progress is of a single run"]),
        ({"a": METHOD}, {"resume": None}, ["resume is of a single run", "Write out="]),
        ({"a": METHOD}, {"checkpoint": print}, ["checkpoint is of a single run", "Write out="]),
        ({"a": METHOD}, {"on_evaluation": print}, ["on_evaluation is of a single run"]),
        ({"a": METHOD}, {"seeds": [1, 0, 1]}, ["got 1 twice, which is the same run", "(1, 0)"]),
        ({"a": METHOD}, {"round": 3}, ["no option 'round'", "Did you mean 'rounds'"]),
    ],
)
def test_comparisons_and_sweeps_say_what_they_take(run, methods, options, parts):
    with pytest.raises(ParameterError) as caught:
        run(methods, PROBLEM, CLIENTS, **options)
    for part in parts:
        assert part in str(caught.value)


def test_comparisons_and_sweeps_take_arrays_of_seeds_and_values():
    compared = fl.compare({"a": METHOD}, PROBLEM, CLIENTS, seeds=np.arange(2), rounds=1)
    again = fl.compare({"a": METHOD}, PROBLEM, CLIENTS, seeds=iter((0, 1)), rounds=1)
    assert [run.about["seed"] for run in compared.results["a"]] == [0, 1]
    assert [run.about["seed"] for run in again.results["a"]] == [0, 1]
    over = {"lr": np.geomspace(0.1, 1.0, 2), "local_steps": np.array([1, 2])}
    search = fl.sweep({"a": METHOD}, PROBLEM, CLIENTS, over=over, seeds=np.arange(2), rounds=1)
    found = search.best["a"].setting
    assert {name: type(value) for name, value in found.items()} == {"lr": float, "local_steps": int}


def test_functions_say_which_argument_is_meant():
    with pytest.raises(ParameterError, match=r"simulate: there is no argument 'round'\. Did you"):
        fl.simulate(METHOD, PROBLEM, CLIENTS, round=3)
    with pytest.raises(ParameterError, match="problem and clients must be given"):
        fl.simulate(METHOD)
    with pytest.raises(ParameterError, match=r"by name, as in rounds=\.\.\.; got 4 values"):
        fl.simulate(METHOD, PROBLEM, CLIENTS, 10)
    with pytest.raises(ParameterError, match="reference: problem must be a problem"):
        fl.reference(METHOD, CLIENTS)
    with pytest.raises(ParameterError, match="check: clients must be clients"):
        fl.check(METHOD, clients=ROWS)
    with pytest.raises(ParameterError, match="dataset must be a Dataset; got a str"):
        fl.data.partition("digits", "iid", clients=3)
    with pytest.raises(ParameterError, match=r"Dirichlet needs clients: .*; and alpha: "):
        fl.data.partition(fl.data.load("iris"), "dirichlet")


class Hub(NamedTuple):
    model: Any
    count: Any


def broken(**parts):
    """A method of which some functions are replaced."""

    class Base(Algorithm):
        def init_hub(self, fed, key, /):
            return Hub(fed.init_model(key), 0.0)

        def round(self, hub, fed, key, /):
            replies = yield ask(self.train, hub.model, to=fl.cohorts.everyone(fed.n))
            return Hub(hub.model + replies.average(fed.weights), hub.count + 1), ()

        def train(self, client, model, f, key, /):
            return client, -f.grad(model, key)

    for name, function in parts.items():
        function.__name__ = name
    return algorithm(type("Mine", (Base,), parts))()


def forgets_its_diagnostics(self, hub, fed, key, /):
    yield ask(self.train, hub.model, to=fl.cohorts.everyone(fed.n))
    return hub


def shrinks(self, hub, fed, key, /):
    yield ask(self.train, hub.model, to=fl.cohorts.everyone(fed.n))
    return Hub(hub.model[:2], hub.count), ()


def replies_a_part(self, client, model, f, key, /):
    return client, f.grad(model, key)[:2]


def only_replies(self, client, model, f, key, /):
    return f.grad(model, key)


def writes_itself_down(self, client, model, f, key, /):
    self.seen = model
    return client, f.grad(model, key)


@pytest.mark.parametrize(
    "parts,error,said",
    [
        (
            {"round": forgets_its_diagnostics},
            ProtocolError,
            "must return two values, the hub's next state and diagnostics; it returned a Hub. "
            "End it with `return hub, ()`",
        ),
        ({"train": only_replies}, ProtocolError, "Mine.train must return two values, the client's"),
        ({"train": writes_itself_down}, UnchangeableError, "Mine.seen cannot be set"),
        ({"round": shrinks}, ProtocolError, "hub.model was float32[3] and is float32[2]"),
    ],
)
def test_a_method_that_departs_from_the_protocol_is_told_how_to_mend_it(parts, error, said):
    with pytest.raises(error) as caught:
        fl.simulate(broken(**parts), PROBLEM, CLIENTS, rounds=1)
    assert said in str(caught.value)
    finding = fl.check(broken(**parts)).findings[0]
    assert finding.verdict == "broken" and "test_mistakes.py:" in finding.line
    if "was" not in said:
        assert said in finding.reason


def test_an_error_of_a_round_says_what_the_replies_were():
    with pytest.raises(TypeError) as caught:
        fl.simulate(broken(train=replies_a_part), PROBLEM, CLIENTS, rounds=1)
    assert "There, each reply to train was reply float32[2]." in caught.value.__notes__


@pytest.mark.parametrize(
    "base,lacking",
    [
        (fl.schedules.Schedule, "value"),
        (fl.models.Model, "apply"),
        (fl.problems.Problem, "losses"),
        (fl.protocol.Algorithm, "init_hub"),
    ],
)
def test_what_a_class_of_ones_own_lacks_is_named(base, lacking):
    """A function by another name than the base's was answered with a bare NotImplementedError."""
    mine = type("Mine", (base,), {"at": len})()
    some = [0] * (len(inspect.signature(getattr(mine, lacking)).parameters))
    with pytest.raises(fl.FedloomError, match=rf"Mine must define {lacking}\(self, .*Write it: \w"):
        getattr(mine, lacking)(*some)
