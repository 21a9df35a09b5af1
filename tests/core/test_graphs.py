"""Networks from PyTorch against PyTorch's own numbers, which `python -m tools.graphs` wrote."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.models.graph.interpreting import run
from fedloom.models.graph.operations import OPERATIONS
from fedloom.models.graph.program import parsed
from fedloom.rows import Spec

FOLDER = Path(__file__).parents[1] / "graphs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors") if "-expected" not in path.stem)


def graph(name):
    return fl.models.Graph(str(FOLDER / f"{name}.safetensors"))


def known(name):
    found = load_file(FOLDER / f"{name}-expected.safetensors")
    x = found["x"].astype(np.int32) if found["x"].dtype.kind == "i" else found["x"]
    gradients = {k.removeprefix("gradient:"): v for k, v in found.items() if k.startswith("grad")}
    return x, found["outputs"], found["weights"], gradients


@jax.jit
def applied(network, arrays, x):
    return network.apply(arrays, x)


def weighted(network, arrays, x, weights):
    outputs = network.apply(arrays, x)
    return (outputs * weights).sum(), outputs


@pytest.mark.parametrize("name", ["digits", "convolutions", "local_norms"])
def test_poolings_come_before_biases_and_relus_with_the_same_outputs(name):
    held, (x, *_) = graph(name).held, known(name)
    written = parsed(held.program.text)  # the file keeps the order of the module

    def before_pooling(program):
        order = [node.operation for node in program.nodes]
        return order[order.index("aten.max_pool2d.default") - 1]

    assert before_pooling(written) == "aten.relu.default" != before_pooling(held.program)
    arrays = {**held.trained, **held.frozen}
    outputs = [run(program, arrays, x) for program in (written, held.program)]
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_gradients_are_those_of_pytorch_one_by_one_and_side_by_side(name):
    network, (x, outputs, weights, gradients) = graph(name), known(name)
    arrays = network.init(jax.random.key(0), Spec(x.shape[1:], 2, "float32"))

    def both(network, arrays, x, weights):
        return jax.grad(weighted, 1, has_aux=True)(network, arrays, x, weights)

    # Two clients: the arrays as they are, and others.
    stacked = jax.tree.map(lambda a: jnp.stack([a, 0.9 * a]), arrays)
    of_both = jax.jit(jax.vmap(both, (None, 0, None, None)))
    slopes, values = of_both(network, stacked, x, weights)
    np.testing.assert_allclose(values[0], outputs, rtol=0, atol=3e-6 * np.abs(outputs).max())
    assert {name for name in slopes if "running_" not in name} == gradients.keys()
    largest = max(np.abs(gradient).max() for gradient in gradients.values())
    for key, gradient in gradients.items():
        np.testing.assert_allclose(slopes[key][0], gradient, rtol=0, atol=3e-6 * largest)
    alone = applied(network, jax.tree.map(lambda a: 0.9 * a, arrays), x)
    np.testing.assert_allclose(values[1], alone, rtol=0, atol=3e-6 * np.abs(alone).max())
    one = applied(network, arrays, x[:1])  # any number of rows, one among them
    np.testing.assert_allclose(one, outputs[:1], rtol=0, atol=3e-6 * np.abs(outputs).max())


def test_the_graphs_use_what_they_are_to_show():
    used = {node.operation for name in NAMES for node in graph(name).held.program.nodes}
    assert used <= OPERATIONS.keys() and len(used) > 60
    assert len(NAMES) >= 15


def test_images_may_have_their_channels_last():
    network, (x, outputs, *_) = graph("unet"), known("unet")
    arrays = network.init(jax.random.key(0), Spec((8, 8, 3), 2, "float32"))
    turned = applied(network, arrays, x.transpose(0, 2, 3, 1))
    np.testing.assert_allclose(turned, outputs.transpose(0, 2, 3, 1), atol=1e-5)
    with pytest.raises(fl.FedloomError, match=r"takes rows of shape \(8, 8, 3\); these have \(9,"):
        network.init(jax.random.key(0), Spec((9, 8, 3), 2, "float32"))


def test_only_what_requires_a_gradient_is_in_the_model():
    network = graph("bert_lora")
    arrays = network.init(jax.random.key(0), Spec((6,), 2, "float32"))
    assert any("lora_A" in name for name in arrays)
    assert not any("embeddings" in name for name in arrays)
    assert len(network.held.frozen) > len(arrays)
    with pytest.raises(fl.FedloomError, match="whole numbers"):
        network.apply(arrays, np.zeros((2, 6), np.float32))


def test_frozen_arrays_are_arguments_of_programs_and_equal_graphs_share_one():
    one, other = graph("bert_lora"), graph("bert_lora")
    assert one == other and hash(one) == hash(other) and one != graph("bert")
    leaves = jax.tree.leaves(one)
    assert len(leaves) == len(one.held.program.arrays)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert repr(one) == f"Graph('bert_lora.safetensors', sha256='{one.sha256[:16]}')"


def test_double_precision_reaches_frozen_arrays_and_constants():
    network, (x, outputs, *_) = graph("bert_lora"), known("bert_lora")
    with jax.enable_x64(True):
        arrays = network.init(jax.random.key(0), Spec((6,), 2, "float64"))
        wide = applied(network, arrays, x)
        assert wide.dtype == np.float64
        np.testing.assert_allclose(wide, outputs, atol=1e-6)


def test_biases_go_free_of_the_penalty():
    network = graph("mlp")
    problem = fl.problems.Supervised(network, l2=1.0)
    arrays = network.init(jax.random.key(0), Spec((6,), 3, "float32"))
    weights = sum(float((a * a).sum()) for name, a in arrays.items() if name.endswith("weight"))
    assert float(problem.penalty(arrays)) == pytest.approx(weights / 2, rel=1e-6)
