"""What a run that goes on from a result may change, and what its record says then."""

import numpy as np
import pytest

import fedloom as fl
from data.messages import raises
from fedloom.errors import ParameterError

CLIENTS = fl.data.from_arrays([(np.eye(3), [0, 1, 1]), (-np.eye(3), [1, 0, 0])])
PLAIN = fl.algorithms.FedAvg(lr=0.1)
PROBLEM = fl.problems.Logistic()


def run(method, rounds, **options):
    return fl.simulate(method, PROBLEM, CLIENTS, rounds=rounds, progress=False, **options)


@pytest.fixture(scope="module")
def five():
    return run(PLAIN, 5)


def test_fewer_rounds_than_were_done_are_refused(five):
    """The model would be of one round and the history of another."""
    with raises(ParameterError, "rounds must be at least the 5", "got 4", "in all"):
        run(PLAIN, 4, resume=five)
    again = run(PLAIN, 5, resume=five)
    assert again.final == five.final and again.status == "done"


def test_the_record_names_what_computed_the_earlier_rounds(five):
    other = run(fl.algorithms.FedAvg(lr=0.2), 6, resume=five, seed=3)
    same = {"problem": repr(PROBLEM), "batch_size": 32}
    first = {"until round": 5, "algorithm": repr(PLAIN), **same, "seed": 0}
    assert other.about["before"] == [first] and other.about["seed"] == 3
    last = run(PLAIN, 7, resume=other, seed=3)
    second = {"until round": 6, "algorithm": other.about["algorithm"], **same, "seed": 3}
    assert last.about["before"] == [first, second]
    assert "before" not in run(PLAIN, 6, resume=five).about


def test_the_record_names_the_problem_and_the_batches_of_earlier_rounds(five):
    """The record said that all rounds were of the new ones."""
    problem = fl.problems.Logistic(l2=1.0)
    other = fl.simulate(PLAIN, problem, CLIENTS, rounds=6, batch_size=None, resume=five)
    (before,) = other.about["before"]
    assert before["problem"] == repr(PROBLEM) and before["batch_size"] == 32


@pytest.mark.parametrize("names", [["north"], ["north", "south"], None])
def test_other_clients_are_refused(five, names):
    """Without states of clients a model of two clients went on with any others, unnoticed."""
    parts = [(np.eye(3), [0, 1, 1])] * (3 if names is None else len(names))
    with raises(ParameterError, "same clients", "of 2: 'client 0', 'client 1', and here are"):
        fl.simulate(PLAIN, PROBLEM, fl.data.from_arrays(parts, names=names), rounds=6, resume=five)


def test_epsilon_is_not_counted_anew(five):
    """Rounds without noise, or with less of it, would be counted as if they had had it."""
    pytest.importorskip("dp_accounting")
    loud, quiet = (fl.algorithms.Private(PLAIN, clip=1.0, noise=noise) for noise in (1.0, 50.0))
    spent = run(loud, 2)
    for method, earlier in ((quiet, five), (quiet, spent), (PLAIN, spent)):
        with raises(ParameterError, "same method", "epsilon counts every round", "Start anew"):
            run(method, 7, resume=earlier)
    assert run(loud, 4, resume=spent).final["epsilon"] == run(loud, 4).final["epsilon"]
