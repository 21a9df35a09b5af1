"""Every parameter has a rule, and breaking it says who, which, the rule, the value, what to do."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.data import SCHEMES
from fedloom.errors import ParameterError, ProtocolError
from fedloom.experiments.options import RunSettings
from fedloom.experiments.registries import MODELS, PROBLEMS, REGULARISERS
from fedloom.parameters import anything, at_least, param, parametrised
from fedloom.protocol import Algorithm, algorithm

CLASSES = {
    **{key: entry.cls for key, entry in CATALOGUE.items()},
    **PROBLEMS, **REGULARISERS, **MODELS, **SCHEMES, "run": RunSettings,
}  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_every_parameter_is_documented_and_has_a_rule(cls):
    for field in dataclasses.fields(cls):
        assert field.metadata["doc"], f"{cls.__name__}.{field.name} says nothing"
        assert field.metadata["rule"].text


@pytest.mark.parametrize("key", CATALOGUE)
def test_every_rule_of_a_method_refuses_nonsense(key):
    entry = CATALOGUE[key]
    for field in dataclasses.fields(entry.cls):
        rule = field.metadata["rule"]
        if rule is anything or isinstance(entry.trial.get(field.name), Algorithm):
            continue
        with pytest.raises(ParameterError, match=f"{entry.name}: {field.name} must be"):
            entry.cls(**entry.trial | {field.name: "(nonsense"})  # no regular expression either


def test_the_message_says_who_which_rule_value_and_what_to_do():
    with pytest.raises(ParameterError) as caught:
        fl.algorithms.FedAvg(lr=-1.0)
    said = "FedAvg: lr must be a number > 0, or a schedule; got -1.0. Try lr = 0.1."
    assert str(caught.value) == said


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "fast", None])
def test_a_step_size_is_a_positive_number(value):
    with pytest.raises(ParameterError, match="FedAvg: lr must be a number > 0"):
        fl.algorithms.FedAvg(lr=value)


@pytest.mark.parametrize("value", [np.float32(-1), np.float32("nan"), np.int64(0), np.True_])
def test_a_number_of_numpys_keeps_the_rules_too(value):
    with pytest.raises(ParameterError, match="FedAvg: lr must be a number > 0"):
        fl.algorithms.FedAvg(lr=value)
    assert fl.algorithms.FedAvg(lr=np.float32(0.5)).lr == 0.5


def test_an_array_is_none_of_a_few_texts():
    with pytest.raises(ParameterError, match="Logistic: weights must be one of 'equal', 'size'"):
        fl.problems.Logistic(weights=np.array([1.0, 2.0]))
    with pytest.raises(ParameterError, match="class_weights must be"):
        fl.problems.Logistic(class_weights=np.array([1.0, 2.0]))


@pytest.mark.parametrize("value", [0, 2.5, "epochs", "0 epochs", "-1 epochs", "5 days"])
def test_local_steps_are_whole_or_epochs(value):
    with pytest.raises(ParameterError, match="local_steps"):
        fl.algorithms.FedAvg(lr=0.1, local_steps=value)


def test_whole_numbers_become_real_where_a_real_is_meant():
    assert isinstance(fl.algorithms.FedAvg(lr=1).lr, float)


def test_a_class_keeps_the_checks_of_the_class_above_it():
    from fedloom.preparation import Joining

    @parametrised
    class Mine(Joining):
        """Another source of parties."""

        _: dataclasses.KW_ONLY
        more: int = param(at_least(1), "of something", default=1)

    with pytest.raises(ParameterError, match="Mine: 'who' is the id"):
        Mine("who", "ill", ignore=("who",))


def test_floats_are_leaves_and_the_rest_is_structure():
    method = fl.algorithms.FedAvg(lr=0.25, local_steps=7)
    assert jax.tree.leaves(method) == [0.25, 1.0]
    doubled = jax.tree.map(lambda v: 2 * v, method)
    assert (doubled.lr, doubled.local_steps) == (0.5, 7)


def test_an_algorithm_that_asks_nothing_is_refused():
    with pytest.raises(ProtocolError, match=r"Silent.round must contain `yield ask"):

        @algorithm
        class Silent(Algorithm):
            def round(self, hub, fed, key, /):
                return hub, ()
