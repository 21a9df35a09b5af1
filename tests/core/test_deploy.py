"""A client's model on disk: small, exact, and readable by other tools."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import fedloom as fl
from fedloom.deploy import Deployed
from fedloom.deploy.packing import pack, unpack
from fedloom.exchange import wire
from fedloom.layout import layout_of
from fedloom.operators.quantisers import Quantiser, layers_to_quantise
from fedloom.rows import Spec

RNG = np.random.default_rng(0)
DIGITS = tuple("0123456789")


def made(model, features, bits=32, keep=(0, -1), seed=0):
    """A network with random arrays, quantised to so many bits."""
    spec = Spec(features, 10, "float32")
    layout = layout_of(lambda: model.init(jax.random.key(0), spec))
    vector = jnp.asarray(np.random.default_rng(seed).normal(0, 0.1, layout.size), jnp.float32)
    if bits < 32:
        quantiser = Quantiser(layers_to_quantise(layout, keep), 2**bits)
        vector = quantiser.hard(vector, quantiser.first_centres(vector))
    arrays = jax.tree.map(np.asarray, layout.unravel(vector))
    return Deployed(model, arrays, features, DIGITS)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("shape", [(41, 23), (2, 20, 32)])
def test_packing_is_exact(bits, shape):
    array = RNG.normal(size=2**bits)[RNG.integers(0, 2**bits, shape)].astype(np.float32)
    packed = pack(array)
    assert packed.bits <= max(4 if bits == 3 else bits, 1)
    assert packed.codes.nbytes == -(-array.size * packed.bits // 8)
    np.testing.assert_array_equal(unpack(packed), array)


def test_what_has_many_values_or_one_dimension_is_not_packed():
    assert pack(RNG.normal(size=(20, 20))) is None
    assert pack(np.zeros(20)) is None
    assert pack(RNG.normal(size=(5, 5))) is None  # 25 codes and 25 centres are no smaller


def test_a_2_bit_cnn1_is_ten_times_smaller_and_predicts_the_same(tmp_path):
    own = made(fl.models.CNN1(), (28, 28, 1), bits=2)
    own.save(tmp_path / "own.safetensors")
    again = fl.load(tmp_path / "own.safetensors")
    x = RNG.uniform(size=(50, 28, 28, 1)).astype(np.float32)
    np.testing.assert_array_equal(own.predict(x), again.predict(x))
    jax.tree.map(np.testing.assert_array_equal, own.arrays, again.arrays)
    assert again.model == fl.models.CNN1() and again.labels == DIGITS
    # 5x5x6x16, 256x120 and 120x84 weights at 2 bits, with 4 centres each
    count = 2400 + 30720 + 10080
    sizes = own.sizes
    assert sizes.layers_float32 == 4 * count
    assert sizes.layers_packed == count // 4 + 3 * 16
    assert sizes.layers_ratio > 15.9
    made(fl.models.CNN1(), (28, 28, 1)).save(tmp_path / "full.safetensors")
    on_disk = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("full", "own")]
    assert on_disk[0] > 10 * on_disk[1]  # the whole file, header and all


@pytest.mark.parametrize(
    "model,features",
    [
        (fl.models.MLP((5,)), (4,)),
        (fl.models.CNN((2, 3), (5,)), (9, 8, 2)),
        (fl.models.CNN1(), (28, 28, 1)),
        (fl.models.CNN2(), (20, 16, 3)),
        (fl.models.ResNet(1, 4), (8, 8, 3)),
        (fl.models.EmbeddingBag(30, 4), (6,)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_onnx_and_torch_hold_the_same_network(model, features, tmp_path):
    """ONNX Runtime runs the graph; its weights are those of the PyTorch file."""
    onnx = pytest.importorskip("onnx", reason="the extra `export` is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    own = made(model, features)
    x = RNG.normal(size=(3, *features)).astype(np.float32)
    if isinstance(model, fl.models.EmbeddingBag):
        x = RNG.integers(0, 30, (3, *features)).astype(np.int32)
        x[1] = 0  # padding alone
    own.export_onnx(tmp_path / "own.onnx")
    session = runtime.InferenceSession(tmp_path / "own.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], own.predict(x), atol=2e-5)
    own.export_torch(tmp_path / "own.safetensors")
    state = load_file(tmp_path / "own.safetensors")
    graph = onnx.load(tmp_path / "own.onnx").graph
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for name, array in state.items():
        np.testing.assert_array_equal(array, tensors[name])
    if "conv.0.weight" in state:
        assert state["conv.0.weight"].shape[1] == features[-1]  # out, in, row, column
    assert state[max(n for n in state if n.startswith("dense") and "weight" in n)].shape[0] == 10


def test_taking_a_clients_model_from_a_result(tmp_path):
    rows = [(RNG.normal(size=(m, 3)), np.arange(m) % 3) for m in (6, 9, 7)]
    clients = fl.data.from_arrays(rows)
    own = (fl.models.MLP((4, 3)), fl.models.MLP((3,)))
    problem = fl.problems.Personal(fl.models.MLP((2,)), own, bits=(1, 32))
    method = fl.algorithms.QuPeD(lr=0.1, quantise=fl.algorithms.Quantisation())
    result = fl.simulate(method, problem, clients, rounds=3)
    result.save(tmp_path / "run")
    for i, network in enumerate((*own, own[0])):
        taken = fl.deploy.take(method, problem, clients, fl.load(tmp_path / "run"), np.int64(i))
        assert taken.model == network
        right = taken.predict(rows[i][0].astype(np.float32)).argmax(1) == rows[i][1]
        assert right.mean() == pytest.approx(result.client_metrics["accuracy"][i])
        packed = pack(taken.arrays[1]["weights"])
        assert (packed is not None and packed.bits == 1) == (network is own[0])
    with pytest.raises(fl.FedloomError, match="client must be a whole number from 0 to "):
        fl.deploy.take(method, problem, clients, result, 3)


@pytest.mark.parametrize("name", ["PerFedAvg", "FineTuning", "FedAvg"])
def test_a_saved_run_of_clients_without_states_gives_the_models_of_the_unsaved_one(name, tmp_path):
    rows = [(RNG.normal(size=(m, 3)), np.arange(m) % 2) for m in (6, 9)]
    clients, problem = fl.data.from_arrays(rows), fl.problems.Logistic()
    method = getattr(fl.algorithms, name)(lr=0.1)
    result = fl.simulate(method, problem, clients, rounds=2)
    result.save(tmp_path / "run")
    loaded = fl.load(tmp_path / "run")
    own, saved = (fl.deploy.take_all(method, problem, clients, run) for run in (result, loaded))
    jax.tree.map(np.testing.assert_array_equal, [m.arrays for m in own], [m.arrays for m in saved])
    is_the_hubs = np.array_equal(saved[1].arrays[0]["weights"].ravel(), result.model)
    assert is_the_hubs == (name == "FedAvg")


@pytest.mark.parametrize("problem", [fl.problems.Logistic(), fl.problems.Multinomial()])
def test_no_rows_have_no_scores(problem):
    clients = fl.data.from_arrays([(np.eye(3), np.array([0, 1, 0]))] * 2)
    method = fl.algorithms.FedAvg(lr=0.1)
    result = fl.simulate(method, problem, clients, rounds=1)
    for taken in (
        fl.deploy.take(method, problem, clients, result),
        made(fl.models.CNN1(), (28, 28, 1)),
    ):
        some = taken.predict(np.ones((2, *taken.features), np.float32))
        none = taken.predict(np.ones((0, *taken.features), np.float32))
        assert none.shape == (0, *some.shape[1:]) and none.dtype == some.dtype


def test_a_model_is_taken_with_the_method_that_was_run():
    clients = fl.data.from_arrays([(np.eye(3), np.array([0, 1, 0]))] * 2)
    problem = fl.problems.Logistic()
    result = fl.simulate(fl.algorithms.FedAvg(lr=0.1), problem, clients, rounds=1)
    with pytest.raises(
        fl.errors.ParameterError, match=r"its method was FedAvg.*here it is Scaffold"
    ):
        fl.deploy.take(fl.algorithms.Scaffold(lr=0.1), problem, clients, result, client=0)


def test_files_that_are_no_packed_models_are_refused(tmp_path):
    own, path = made(fl.models.MLP((5, 4)), (4,), bits=1), tmp_path / "own.safetensors"
    own.save(path)
    tensors, about = wire.read_file(path)
    save_file(tensors, path)
    with pytest.raises(fl.FedloomError, match="carries no checksum"):
        fl.load(path)
    wire.write_file(path, tensors)
    with pytest.raises(fl.FedloomError, match="is not a model that fedloom packed"):
        fl.load(path)
    for change, message in (
        ({"model": {"kind": "mlp", "hidden": [6, 4]}}, "must be float32 of shape"),
        ({"model": {"kind": "transformer"}}, "its content cannot be used"),
        ({"packed": {}}, "the arrays must be"),
        ({"packed": {"1/weights": {"bits": 2, "shape": [5, 4]}}}, "20 codes of 2 bits must be 5"),
    ):
        wire.write_file(path, tensors, about | change)
        with pytest.raises(fl.FedloomError, match=message):
            fl.load(path)
    with pytest.raises(fl.FedloomError, match="rows must have shape"):
        own.predict(np.zeros((2, 5)))
    pair = fl.models.Pair(fl.models.MLP((5,)).init, fl.models.MLP((5,)).apply)
    with pytest.raises(fl.FedloomError, match="a network of your own"):
        Deployed(pair, own.arrays, (4,), DIGITS).save(path)
