"""A network that does not fit the data is refused before anything runs, in words."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from data.messages import raises
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.errors import DataError, DivergedError
from fedloom.population import assemble
from fedloom.problems import outputs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4))
PROBLEMS = fl.problems


def network(*shape, inputs=4):
    """One of the user's own, with outputs of a shape that does not depend on the data."""
    return fl.models.Pair(
        lambda key, spec: jnp.full((inputs, *shape), 0.1, spec.dtype),
        lambda arrays, x: jnp.tensordot(x, arrays, 1),
    )


def clients(labels):
    return fl.data.from_arrays([(X, np.asarray(labels))] * 3)


TEN, THREE, TWO = (
    clients(np.arange(20) % 10),
    clients(np.arange(20) % 3),
    clients(np.arange(20) % 2),
)
COUNTS = clients(np.arange(20.0))
LIVES = clients(np.column_stack([np.arange(1.0, 21), np.ones(20)]))
FIVE = clients(np.arange(100).reshape(20, 5) % 2)
TEXTS = fl.data.from_arrays([(X, np.arange(60).reshape(20, 3) % 7)] * 2)  # labels along a row

UNFIT = {
    "too few": (PROBLEMS.Supervised(network(5)), TEN, ["Supervised", "10 classes", "(5,)"]),
    "one of three": (PROBLEMS.Supervised(network(1)), THREE, ["3 classes", "has (1,)"]),
    "no axis": (PROBLEMS.Supervised(network()), TWO, ["2 classes", "has ()"]),
    "one axis more": (PROBLEMS.Supervised(network(1, 2)), TWO, ["2 classes", "has (1, 2)"]),
    "along rows": (PROBLEMS.Supervised(network(7)), TEXTS, ["shape (3, 7)", "has (7,)"]),
    "adversarial": (PROBLEMS.Adversarial(1.0, network(1)), TWO, ["Adversarial", "2 classes"]),
    "common": (PROBLEMS.Personal(network(5), network(10)), TEN, ["Personal", "10 classes"]),
    "own": (PROBLEMS.Personal(network(10), network(5)), TEN, ["Personal", "10 classes"]),
    "labels": (PROBLEMS.MultiLabel(model=network(3)), FIVE, ["MultiLabel", "5 outputs", "(3,)"]),
    "counts": (PROBLEMS.Poisson(model=network(3)), COUNTS, ["Poisson", "one output", "(3,)"]),
    "hazards": (PROBLEMS.Cox(model=network(3)), LIVES, ["Cox", "one output", "(3,)"]),
    "ranks": (PROBLEMS.AUC(model=network(3)), TWO, ["AUC", "one output", "(3,)"]),
    "width": (PROBLEMS.Supervised(network(10, inputs=7)), TEN, ["(4,)", "fails on them"]),
    "width of a regression": (
        PROBLEMS.Supervised(network(1, inputs=7), "squared"),
        COUNTS,
        ["rows of shape (4,)", "fails on them"],
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_network_that_does_not_fit_is_refused(case):
    problem, data, said = UNFIT[case]
    with raises(DataError, *said):
        assemble(problem, data, None, "float32")


@dataclasses.dataclass
class Changeable(fl.models.Model):
    """A network that cannot be hashed, as its fields can be set."""

    width: int = 3

    def init(self, key, spec):
        return jnp.zeros((4, spec.classes), spec.dtype)

    def apply(self, arrays, x):
        return x @ arrays


def test_a_network_that_cannot_be_hashed_is_told_how_to_be():
    with raises(DataError, "must be hashable", "Changeable", "@dataclass(frozen=True)"):
        assemble(PROBLEMS.Supervised(Changeable()), TEN, None, "float32")


def test_few_networks_are_kept_with_their_weights():
    assert outputs._outputs_of.cache_info().maxsize <= 8


def test_other_networks_are_not():
    """More outputs than classes are common where a network was made for other data."""
    for count in (10, 12):
        assemble(PROBLEMS.Supervised(network(count)), TEN, None, "float32")
    assemble(PROBLEMS.Supervised(network(3, 8)), TEXTS, None, "float32")
    for problem in (PROBLEMS.Poisson(model=network(1)), PROBLEMS.Poisson(model=network())):
        assemble(problem, COUNTS, None, "float32")


PARTIES = fl.data.from_parties([X[:, :3], X[:, 3:]], np.arange(20) % 3)
FITTING = {"network": fl.models.MLP(()), "embedding": 4, "loss": "softmax"}


@pytest.mark.parametrize("case", ["network", "fusion"])
def test_networks_of_parties(case):
    def outputs_of(spec):
        return spec.features[0], 2

    small = fl.models.Pair(
        lambda key, spec: jnp.ones(outputs_of(spec), spec.dtype), lambda arrays, x: x @ arrays
    )
    problem = PROBLEMS.Vertical(**FITTING | {"fusion": fl.models.MLP(())} | {case: small})
    said = ["as embedding says", "(2,)"] if case == "network" else ["(3,)", "'softmax'", "(2,)"]
    with raises(DataError, f"Vertical: {case} must have", *said):
        fl.simulate(CATALOGUE["split_training"].example(), problem, PARTIES, rounds=1)


def test_words_beyond_a_table_are_found_wherever_they_are():
    texts = [(RNG.integers(0, 5, (6, 4)), np.arange(6) % 2)] * 2
    beyond = [(RNG.integers(7, 9, (6, 4)), np.arange(6) % 2)] * 2
    small = fl.models.Transformer(vocabulary=5, width=4, heads=1, blocks=1)
    large = fl.models.Transformer(vocabulary=9, width=4, heads=1, blocks=1)
    tested = fl.data.from_arrays(texts, test=beyond)
    with raises(DataError, "vocabulary of the network", "it is 5", "Try vocabulary = 9"):
        assemble(PROBLEMS.Supervised(small), tested, None, "float32")
    with raises(DataError, "vocabulary of the network", "it is 5", "Try vocabulary = 9"):
        assemble(PROBLEMS.Personal(large, small), tested, None, "float32")
    assemble(PROBLEMS.Personal(large, large), tested, None, "float32")
    negative = fl.data.from_arrays([(x - 1, y) for x, y in texts])
    with raises(DataError, "numbers of words from 0", "they have -1"):
        assemble(PROBLEMS.Supervised(large), negative, None, "float32")


def test_a_fresh_model_without_a_loss_is_told_apart_from_long_steps():
    broken = fl.models.Pair(
        lambda key, spec: jnp.zeros((4, spec.classes), spec.dtype),
        lambda arrays, x: jnp.log(x @ arrays - 1),
    )
    with pytest.raises(DivergedError, match="Its loss was no number before"):
        fl.simulate(fl.algorithms.FedAvg(lr=0.1), PROBLEMS.Supervised(broken), TEN, rounds=1)
