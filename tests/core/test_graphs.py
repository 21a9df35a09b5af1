"""Networks from PyTorch against PyTorch's own numbers, which `python -m tools.graphs` wrote."""

from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.models.graph.interpreting import run
from fedloom.models.graph.operations import OPERATIONS
from fedloom.models.graph.program import parsed
from fedloom.rows import Spec
from tiers import in_turn

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


@jax.jit
def slopes_and_outputs(network, stacked, x, weights):
    """Of clients side by side."""

    def weighted(arrays):
        outputs = network.apply(arrays, x)
        return (outputs * weights).sum(), outputs

    return jax.vmap(jax.grad(weighted, has_aux=True))(stacked)


def two_clients(network, x):
    """The arrays as they are, and others. By NumPy, which compiles nothing."""
    arrays = jax.device_get(network.init(jax.random.key(0), Spec(x.shape[1:], 2, "float32")))
    return {key: np.stack([a, np.float32(0.9) * a]) for key, a in arrays.items()}


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


# Whose every operation another graph has too.
MORE = ("bert", "digits_transformer", "encoder", "gru", "vit", "vit_lora")
IN_EVERY_RUN = [name for name in NAMES if name not in MORE]


@pytest.mark.parametrize("name", in_turn(NAMES, IN_EVERY_RUN))
def test_outputs_and_gradients_are_those_of_pytorch(name):
    network, (x, outputs, weights, gradients) = graph(name), known(name)
    stacked = two_clients(network, x)
    slopes, values = jax.device_get(slopes_and_outputs(network, stacked, x, weights))
    np.testing.assert_allclose(values[0], outputs, rtol=0, atol=3e-6 * np.abs(outputs).max())
    assert {name for name in slopes if "running_" not in name} == gradients.keys()
    largest = max(np.abs(gradient).max() for gradient in gradients.values())
    for key, gradient in gradients.items():
        np.testing.assert_allclose(slopes[key][0], gradient, rtol=0, atol=3e-6 * largest)


# Convolutions and norms, attention over a frozen network, a recurrent one: what clients side by
# side may do differently. `make test-thorough` has the others.
SOME = ("convolutions", "local_norms", "bert_lora", "lstm")


@pytest.mark.parametrize("name", in_turn(NAMES, SOME))
def test_clients_and_rows_by_themselves_have_the_outputs_of_all(name):
    network, (x, outputs, weights, _) = graph(name), known(name)
    stacked = two_clients(network, x)
    first, second = ({key: a[i] for key, a in stacked.items()} for i in range(2))
    _, values = jax.device_get(slopes_and_outputs(network, stacked, x, weights))
    alone = np.asarray(applied(network, second, x))
    np.testing.assert_allclose(values[1], alone, rtol=0, atol=3e-6 * np.abs(alone).max())
    # Any number of rows, one among them.
    one = np.asarray(applied(network, first, x[:1]))
    np.testing.assert_allclose(one, outputs[:1], rtol=0, atol=3e-6 * np.abs(outputs).max())


def test_the_graphs_use_what_they_are_to_show():
    def used(names):
        return {node.operation for name in names for node in graph(name).held.program.nodes}

    assert used(NAMES) <= OPERATIONS.keys() and len(used(NAMES)) > 60
    assert used(IN_EVERY_RUN) == used(NAMES)
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
