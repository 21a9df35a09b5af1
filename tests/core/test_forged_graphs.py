"""Files that claim to be networks: whatever is not a checked program is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

import fedloom as fl
from fedloom import checksums
from fedloom.models.graph import file
from fedloom.models.graph.program import MOST_NODES

SOURCE = Path(__file__).parents[1] / "graphs" / "mlp.safetensors"


@pytest.fixture
def parts():
    """A program as plain values, and its arrays."""
    program, arrays = file.read(SOURCE)
    return json.loads(program.text), arrays


def forged(parts, text=None):
    """Bytes with a right checksum, as somebody could make them."""
    program, arrays = parts
    about = f"{checksums.BLANK} {json.dumps(program) if text is None else text}"
    return checksums.seal(save({k: np.array(a) for k, a in arrays.items()}, {file._KEY: about}))


def node(name, operation, *args, **kwargs):
    return [name, operation, list(args), kwargs]


def before(program, *nodes, output=None):
    """The program with nodes at its end."""
    program["nodes"] += list(nodes)
    if output:
        program["output"] = output


def norm_without_statistics(program):
    norm = "aten._native_batch_norm_legit_no_training.default"
    before(program, node("n", norm, X, None, None, None, None, 0.1, 1e-5),
           node("o", "operator.getitem", {"node": "n"}, 0), output="o")  # fmt: skip
    program["norm"] = "local"


X = {"node": "x"}
FORGERIES = {
    "share": (
        lambda p: before(p, node("n", "aten.native_dropout.default", X, "half", True)),
        "the share that a dropout drops must be from 0 to 1; got 'half'",
    ),
    "chance": (
        lambda p: before(p, node("n", "aten.bernoulli.p", X, 7)),
        "a chance must be from 0 to 1; got 7",
    ),
    "step": (
        lambda p: before(p, node("n", "aten.dropout.default", X, 0.5, True, step=1)),
        "is given other arguments",
    ),
    "norm": (norm_without_statistics, "node 'n' of the graph.*cannot be applied"),
    "operation": (
        lambda p: before(p, node("n", "os.system", "id")),
        r"node 'n': 'os.system' is not an operation that fedloom knows",
    ),
    "attribute": (
        lambda p: before(p, node("n", "operator.attrgetter", "a")),
        "is not an operation",
    ),
    "cycle": (
        lambda p: before(p, node("a", "aten.relu.default", {"node": "b"}),
                         node("b", "aten.relu.default", {"node": "a"})),
        "refers to 'b', which is no node before it",
    ),
    "itself": (
        lambda p: before(p, node("a", "aten.relu.default", {"node": "a"})),
        "refers to 'a', which is no node before it",
    ),
    "huge length": (
        lambda p: before(p, node("n", "aten.zeros.default", [10**12])),
        "cannot be 1000000000000",
    ),
    "huge shape": (
        lambda p: before(p, node("n", "aten.zeros.default", [10**6, 10**6])),
        r"node 'n' \(aten.zeros.default\) of the graph has shape \(1000000, 1000000\)",
    ),
    "huge range": (
        lambda p: before(p, node("n", "aten.arange.default", 1e12)),
        "of the graph",
    ),
    "huge repeat": (
        lambda p: before(p, node("n", "aten.repeat.default", X, [10**6, 10**6])),
        "of the graph has shape",
    ),
    "many parts": (
        lambda p: before(p, node("z", "aten.zeros.default", [2**30]),
                         node("n", "aten.split.Tensor", {"node": "z"}, 1)),
        "must be at most 4096",
    ),
    "large kernel": (
        lambda p: before(p, node("z", "aten.zeros.default", [1, 1, 2000, 2000]),
                         node("n", "aten.max_pool2d.default", {"node": "z"}, [1000, 1000])),
        "the places of a kernel must be at most 4096",
    ),
    "huge row": (lambda p: p["row"].update(shape=[2**31 - 1, 2]), "the rows of the graph"),
    "arity": (
        lambda p: before(p, node("n", "aten.relu.default", X, 1)),
        "is given other arguments: too many positional arguments",
    ),
    "keyword": (
        lambda p: before(p, node("n", "aten.relu.default", X, out="a")),
        "is given other arguments",
    ),
    "type": (
        lambda p: before(p, node("n", "aten.relu.default", "text")),
        "node 'n' of the graph: aten.relu.default cannot be applied",
    ),
    "shapes that do not fit": (
        lambda p: before(p, node("n", "aten.matmul.default", X, X)),
        "aten.matmul.default cannot be applied",
    ),
    "deep": (
        lambda p: before(p, node("n", "aten.cat.default", [[[[[[1]]]]]])),
        "lists in more than",
    ),
    "two of one name": (
        lambda p: before(p, node("x", "aten.relu.default", X)),
        "which must be new",
    ),
    "many nodes": (
        lambda p: p.update(nodes=p["nodes"] * (MOST_NODES // 4 + 1)),
        f"1 to {MOST_NODES} nodes",
    ),
    "unknown key": (lambda p: p.update(code="import os"), "must have the keys"),
    "missing key": (lambda p: p.pop("trained"), "must have the keys"),
    "format": (lambda p: p.update(format=99), "must be of format 1; got 99"),
    "trains what is not there": (lambda p: p.update(trained=["nothing"]), "trained of a graph"),
    "trains nothing": (lambda p: p.update(trained=[]), "trained of a graph"),
    "output": (lambda p: p.update(output="nowhere"), "output of a graph cannot be 'nowhere'"),
    "an output that is no array of rows": (
        lambda p: before(p, node("n", "aten.sym_size.int", X, 0), output="n"),
        "one output for each row",
    ),
    "arrays that are not there": (
        lambda p: p["inputs"].update(new="missing"),
        "missing: ..missing",
    ),
    "a code object": (
        lambda p: before(p, node("n", "aten.relu.default", {"code": "x"})),
        "cannot be {'code': 'x'}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_program_is_refused(parts, kind, tmp_path):
    change, message = FORGERIES[kind]
    change(parts[0])
    path = tmp_path / "net.safetensors"
    path.write_bytes(forged(parts))
    with pytest.raises(fl.FedloomError, match=message) as caught:
        fl.models.Graph(str(path))
    assert str(path) in str(caught.value)


def test_what_is_not_forged_is_read(parts):
    file.decoded(forged(parts))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", '{"format": 1}', "\0"])
def test_a_text_that_is_no_program_is_refused(parts, text):
    with pytest.raises(fl.FedloomError):
        file.decoded(forged(parts, text))


def test_a_truncated_or_damaged_file_is_refused(parts, tmp_path):
    whole = SOURCE.read_bytes()
    path = tmp_path / "net.safetensors"
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(fl.FedloomError, match=r"net\.safetensors"):
            fl.models.Graph(str(path))
        with pytest.raises(fl.FedloomError):  # with a checksum of its own, too
            file.decoded(whole[:length])
    damaged = bytearray(whole)
    damaged[-3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(fl.FedloomError, match="checksum"):
        fl.models.Graph(str(path))


def test_arrays_that_the_program_does_not_name_or_of_other_types_are_refused(parts):
    program, arrays = parts
    with pytest.raises(fl.FedloomError, match=r"not named: ..more"):
        file.decoded(forged((program, {**arrays, "more": np.zeros(3, np.float32)})))
    name = program["trained"][0]
    with pytest.raises(fl.FedloomError, match="cannot be of type int32"):
        file.decoded(forged((program, {**arrays, name: arrays[name].astype(np.int32)})))
    with pytest.raises(fl.FedloomError, match="cannot be applied"):
        file.decoded(forged((program, {**arrays, name: np.zeros((2, 2), np.float32)})))


def test_another_network_under_the_same_name_is_refused(tmp_path):
    path = tmp_path / "net.safetensors"
    path.write_bytes(SOURCE.read_bytes())
    network = fl.models.Graph(str(path))
    assert fl.models.Graph(str(path), network.sha256) == network
    with pytest.raises(fl.FedloomError, match="is not the network that is meant"):
        fl.models.Graph(str(path), "0" * 64)
    with pytest.raises(fl.FedloomError, match="there is no such file"):
        fl.models.Graph(str(tmp_path / "nowhere.safetensors"))
