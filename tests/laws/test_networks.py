"""The laws for networks from PyTorch, with dropout, trained statistics and frozen arrays.

Clients have unequal numbers of rows: batches are padded on the simulator, and not at sites.
"""

from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.checking import engines, resuming, secrecy
from fedloom.checking.case import Case
from fedloom.checking.federations import Trial
from tiers import thorough

GRAPHS = Path(__file__).parents[1] / "graphs"
ROUNDS = 2


def graph(name):
    return fl.models.Graph(str(GRAPHS / f"{name}.safetensors"))


def images():
    rng = np.random.default_rng(3)
    return fl.data.from_arrays(
        [(rng.normal(size=(m, 8, 8, 1)), np.arange(m) % 10) for m in (5, 10)]
    )


def local_norms():
    """A convolutional network with batch norms, and corrections for drift."""
    method = fl.algorithms.Scaffold(lr=0.1, local_steps=2)
    return Case(method, Trial(fl.problems.Supervised(graph("local_norms"), l2=0.1), images()),
                ROUNDS, 6)  # fmt: skip


def low_rank():
    """A transformer with dropout, of which changes of low rank and the head are trained."""
    network = fl.models.lora(graph("digits_transformer"), rank=1, whole="^head")
    method = fl.algorithms.FedAvg(lr=0.1, local_steps=2)
    return Case(method, Trial(fl.problems.Supervised(network), images()), ROUNDS, 6)


def unlike():
    """A convolutional network at one client, a transformer at the other, and a common MLP."""
    own = (graph("digits"), graph("digits_transformer"))
    problem = fl.problems.Personal(fl.models.MLP((4,), dropout=0.25), own)
    return Case(fl.algorithms.QuPeD(lr=0.1, local_steps=2), Trial(problem, images()), ROUNDS, 6)


def own_norms():
    """FedBN: the same network, whose norms and statistics stay at the clients."""
    problem = fl.problems.Personal(graph("local_norms"))
    return Case(fl.algorithms.FedBN(lr=0.1, local_steps=2), Trial(problem, images()), ROUNDS, 6)


CASES = [local_norms, low_rank, unlike, own_norms]


# In every test run, statistics that stay at clients, and unlike networks side by side.
SOME = (unlike, own_norms)


@pytest.fixture(
    scope="module",
    params=[pytest.param(f, marks=() if f in SOME else thorough, id=f.__name__) for f in CASES],
)
def case(request):
    return request.param()


def test_engines_agree(case):
    engines.agree(case)


def test_a_resumed_run_has_the_same_bits(case):
    resuming.is_exact(case)


def test_bytes_are_those_of_trained_arrays_alone(case):
    engines.bytes_are_true(case)
    if isinstance(case.method, fl.algorithms.FedAvg):
        trained = sum(array.size for array in case.result.model.values())
        assert case.result.about["bytes_up"] == ROUNDS * 2 * 8 * trained  # clients, float64
        assert trained < sum(a.size for a in graph("digits_transformer").held.trained.values())


def test_norms_of_fedbn_are_not_sent_and_differ():
    result, network = own_norms().result, graph("local_norms")
    sizes = {name: array.size for name, array in network.held.trained.items()}
    own = sum(sizes[name] for name in network.norm_arrays)
    assert any(name.endswith("running_var") for name in network.norm_arrays)
    assert result.about["bytes_up"] == ROUNDS * 2 * 8 * (sum(sizes.values()) - own)
    (kept,) = result.state.clients
    assert kept.own.shape == (2, own) and not np.allclose(*kept.own)


def test_secure_sums_suffice_for_trained_statistics():
    secrecy.sums_suffice(local_norms())
