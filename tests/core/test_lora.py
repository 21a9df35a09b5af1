"""Changes of low rank, on a graph and on fedloom's own networks."""

from pathlib import Path

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.layout import layout_of
from fedloom.rows import Spec

GRAPHS = Path(__file__).parents[1] / "graphs"
SPEC = Spec((6,), 2, "float32")
KEY = jax.random.key(1)


@pytest.fixture(scope="module")
def clients():
    return fl.data.partition(fl.data.load("iris"), "iid", clients=3)


def test_it_begins_as_the_network_and_moves_by_low_rank():
    network = fl.models.Graph(str(GRAPHS / "bert.safetensors"))
    tuned = fl.models.lora(network, rank=2, alpha=4.0, matrices="query|value", whole="^classifier")
    arrays = tuned.init(KEY, SPEC)
    assert sum("lora_a" in name for name in arrays) == 4  # two layers, two matrices each
    assert {n for n in arrays if "lora" not in n} == {"classifier.weight", "classifier.bias"}
    x = np.arange(12, dtype=np.int32).reshape(2, 6)
    start = network.init(KEY, SPEC)
    np.testing.assert_allclose(tuned.apply(arrays, x), network.apply(start, x), atol=1e-6)
    moved = {n: a + 0.1 if "lora_b" in n else a for n, a in arrays.items()}
    name = next(n for n in arrays if "query" in n and "lora_b" in n).removesuffix(".lora_b")
    change = np.asarray(tuned.merged(moved)[name] - start[name])
    factors = moved[f"{name}.lora_b"] @ moved[f"{name}.lora_a"]
    np.testing.assert_allclose(change, 2 * factors, atol=1e-6)
    assert np.linalg.matrix_rank(change, tol=1e-5) <= 2


def test_by_default_all_matrices_in_products_change_and_no_table_of_words():
    tuned = fl.models.lora(fl.models.Graph(str(GRAPHS / "gpt2.safetensors")), rank=1)
    changed = {n.rpartition(".lora")[0] for n in tuned.init(KEY, SPEC)}
    assert any("c_attn" in name for name in changed)
    assert not any("wpe" in name for name in changed)


def test_own_networks_go_on_from_arrays_that_were_trained(clients):
    first = fl.problems.Supervised(fl.models.MLP((8,)))
    method = fl.algorithms.FedAvg(lr=0.1, local_steps=2)
    trained = fl.simulate(method, first, clients, rounds=3, batch_size=8)
    tuned = fl.models.lora(first.model, rank=1, alpha=1.0, arrays=trained.model)
    problem = fl.problems.Supervised(tuned)
    method = fl.algorithms.FedAvg(lr=0.02, local_steps=2)
    result = fl.simulate(method, problem, clients, rounds=3, batch_size=8)
    assert result.rows[0]["loss"] == pytest.approx(trained.final["loss"], rel=1e-5)
    assert result.final["loss"] < result.rows[0]["loss"]
    size = layout_of(lambda: tuned.init(KEY, Spec((4,), 3, "float32"))).size
    assert size == (4 + 8) + (8 + 3) and result.final["bytes_up"] == 3 * 3 * 4 * size
    taken = fl.deploy.take(method, problem, clients, result)
    x = clients.train.x[:5].astype(np.float32)
    np.testing.assert_allclose(taken.predict(x), tuned.apply(result.model, x), atol=1e-5)
    assert isinstance(taken.model, fl.models.MLP)


def test_what_cannot_be_tuned_is_refused():
    with pytest.raises(fl.FedloomError, match=r"arrays=result\.model"):
        fl.models.lora(fl.models.MLP())
    network = fl.models.Graph(str(GRAPHS / "mlp.safetensors"))
    with pytest.raises(fl.FedloomError, match=r"fits none of 0\.bias, 0\.weight"):
        fl.models.lora(network, matrices="attention")
    with pytest.raises(fl.FedloomError, match="must be a regular expression"):
        fl.models.lora(network, matrices="(")
