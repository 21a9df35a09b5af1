"""Batch norms whose statistics are trained, against PyTorch's own training."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import fedloom as fl
from fedloom import draws
from fedloom.population import assemble
from fedloom.rows import Drawn, Spec

GRAPHS = Path(__file__).parents[1] / "graphs"
KNOWN = load_file(GRAPHS / "local_norms-expected.safetensors")
LR, STEPS = 0.1, 5  # as in tools/graphs.py
MEAN, VARIANCE = "1.running_mean", "1.running_var"


@pytest.fixture(scope="module")
def network():
    return fl.models.Graph(str(GRAPHS / "local_norms.safetensors"))


@pytest.fixture(scope="module")
def arrays(network):
    return network.init(jax.random.key(0), Spec((1, 8, 8), 10, "float32"))


@pytest.fixture(scope="module")
def f(network):
    """The oracles of a client with fewer rows than another."""
    x, y = KNOWN["x"], KNOWN["labels"]
    clients = fl.data.from_arrays([(x[:7], y[:7]), (x, y)])
    problem = fl.problems.Supervised(network, l2=0.1)
    return assemble(problem, clients, None, "float32").groups[0].objective(0)


def test_steps_are_those_of_pytorch_statistics_and_all(network):
    clients = fl.data.from_arrays([(KNOWN["x"], KNOWN["labels"])])
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=LR, local_steps=STEPS),
        fl.problems.Supervised(network), clients, rounds=1, batch_size=None,
    )  # fmt: skip
    expected = {k.removeprefix("trained:"): v for k, v in KNOWN.items() if k.startswith("trained:")}
    assert result.model.keys() == expected.keys() and MEAN in expected
    for name, array in expected.items():
        np.testing.assert_allclose(result.model[name], array, rtol=0, atol=1e-5, err_msg=name)


def test_the_names_of_what_may_stay_at_clients(network):
    kinds = ("weight", "bias", "running_mean", "running_var")
    assert set(network.norm_arrays) == {f"{place}.{kind}" for place in (1, 6) for kind in kinds}
    group = fl.models.Graph(str(GRAPHS / "group_norms.safetensors"))
    assert set(group.norm_arrays) == {"1.weight", "1.bias"}
    assert fl.models.Graph(str(GRAPHS / "mlp.safetensors")).norm_arrays == ()


def test_statistics_go_to_those_of_the_rows_that_count_and_no_penalty_moves_them(f, arrays):
    x = KNOWN["x"][:7]
    weight, bias = arrays["0.weight"], arrays["0.bias"]
    seen = jax.lax.conv(jnp.asarray(x), weight, (1, 1), "SAME") + bias[:, None, None]
    slope = f.layout.unravel(jax.jit(f.full_grad)(f.layout.ravel(arrays)))
    mean, variance = seen.mean((0, 2, 3)), seen.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(slope[MEAN], arrays[MEAN] - mean, atol=1e-6)
    np.testing.assert_allclose(slope[VARIANCE], arrays[VARIANCE] - variance, atol=1e-6)
    moved = arrays | {MEAN: arrays[MEAN] + 5, VARIANCE: arrays[VARIANCE] + 5}
    assert f.problem.penalty(moved) == f.problem.penalty(arrays)


def test_the_loss_in_training_does_not_depend_on_the_statistics_and_that_of_metrics_does(
    f, network, arrays
):
    moved = arrays | {MEAN: arrays[MEAN] + 5}
    value = jax.jit(f.full_value)
    one, other = (value(f.layout.ravel(model)) for model in (arrays, moved))
    assert one == other
    x = KNOWN["x"]
    assert not np.allclose(network.apply(arrays, x), network.apply(moved, x), atol=0.1)


def test_a_variance_that_a_step_made_negative_counts_as_zero(network, arrays):
    negative = network.apply(arrays | {VARIANCE: -arrays[VARIANCE]}, KNOWN["x"])
    zero = network.apply(arrays | {VARIANCE: 0 * arrays[VARIANCE]}, KNOWN["x"])
    np.testing.assert_array_equal(negative, zero)


def test_one_row_alone_has_a_slope(network, arrays):
    def first(arrays):
        return network.train_apply(arrays, KNOWN["x"][:1], Drawn(draws.key(0), None)).sum()

    assert all(np.isfinite(slope).all() for slope in jax.jit(jax.grad(first))(arrays).values())


def test_changes_of_low_rank_go_with_statistics_that_learn(network):
    tuned = fl.models.lora(network, rank=1, matrices="5.weight")
    names = set(tuned.init(jax.random.key(0), Spec((1, 8, 8), 10, "float32")))
    statistics = {name for name in network.norm_arrays if "running" in name}
    assert names == {"5.weight.lora_a", "5.weight.lora_b"} | statistics
