"""Any model on its own: the same scores wherever it is taken, and coefficients by columns."""

import jax
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.deploy import hub_model
from fedloom.preparation.encoding import Column, Preparation, plain_encoding
from fedloom.rows import Spec

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 3)).astype(np.float32)
MLP = fl.models.MLP((5,))


def arrays_of(problem, classes, features=(3,)):
    """Random arrays of a problem's model."""
    spec = Spec(features, classes, "float32")
    like = jax.eval_shape(lambda: problem.init(jax.random.key(0), spec))
    return jax.tree.map(lambda s: RNG.normal(size=s.shape).astype(np.float32), like)


def dense_by_hand(file, x):
    """What PyTorch's Linear layers with ReLU between them give."""
    state = load_file(file)
    for k in range(len(state) // 2):
        x = np.maximum(x, 0) if k else x
        x = x @ state[f"dense.{k}.weight"].T + state[f"dense.{k}.bias"]
    return x


def onnx_session(file):
    pytest.importorskip("onnx", reason="the extra `export` is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    return runtime.InferenceSession(file, providers=["CPUExecutionProvider"])


PROBLEMS = {
    "logistic": (fl.problems.Logistic(), 2),
    "logistic with an intercept": (fl.problems.Logistic(intercept=True), 2),
    "multinomial": (fl.problems.Multinomial(intercept=True), 3),
    "least squares": (fl.problems.LeastSquares(intercept=True), 0),
    "network": (fl.problems.Supervised(MLP), 3),
    "network, regression": (fl.problems.Supervised(MLP, loss="squared"), 0),
    "adversarial": (fl.problems.Adversarial(penalty_strength=1.0), 2),
    "auc": (fl.problems.AUC(positive_rate=0.4), 2),
    "auc with a network": (fl.problems.AUC(positive_rate=0.4, model=MLP), 2),
}


@pytest.mark.parametrize("problem,classes", PROBLEMS.values(), ids=PROBLEMS)
def test_scores_are_those_of_the_problem_in_every_format(problem, classes, tmp_path):
    arrays = arrays_of(problem, classes)
    labels = [f"class {k}" for k in range(classes)] or None
    own = hub_model(problem, arrays, (3,), labels)
    scores = np.asarray(problem.scores(arrays, X)).reshape(4, -1)
    np.testing.assert_allclose(own.predict(X), scores, rtol=1e-5, atol=1e-5)
    own.save(tmp_path / "own.safetensors")
    again = fl.load(tmp_path / "own.safetensors")
    np.testing.assert_array_equal(again.predict(X), own.predict(X))
    assert (again.link, again.labels) == (problem.link, tuple(labels or ()))
    own.export_torch(tmp_path / "torch.safetensors")
    np.testing.assert_allclose(dense_by_hand(tmp_path / "torch.safetensors", X), scores, atol=1e-5)
    own.export_onnx(tmp_path / "own.onnx")
    session = onnx_session(tmp_path / "own.onnx")
    names = [output.name for output in session.get_outputs()]
    said = dict(zip(names, session.run(None, {"x": X}), strict=True))
    np.testing.assert_allclose(said["scores"], scores, atol=2e-5)
    assert ("probabilities" in said) == (problem.link in ("logit", "softmax"))
    if "probabilities" in said:
        chosen = scores.argmax(1) if scores.shape[1] > 1 else scores[:, 0] > 0
        np.testing.assert_allclose(said["probabilities"].sum(1), 1, atol=1e-6)
        np.testing.assert_array_equal(said["probabilities"].argmax(1), chosen)


def test_a_recurrent_network_goes_to_onnx_and_torch(tmp_path):
    problem = fl.problems.Supervised(fl.models.GRU(4, 6))
    arrays = arrays_of(problem, 7, (5,))
    own = hub_model(problem, arrays, (5,), list("abcdefg"))
    x = RNG.integers(0, 7, (3, 5)).astype(np.int32)
    own.export_onnx(tmp_path / "own.onnx")
    scores, shares = onnx_session(tmp_path / "own.onnx").run(None, {"x": x})
    np.testing.assert_allclose(scores, own.predict(x), atol=2e-5)
    assert shares.shape == (3, 5, 7)
    own.export_torch(tmp_path / "own.safetensors")
    state = load_file(tmp_path / "own.safetensors")
    shapes = {name: array.shape for name, array in state.items()}
    assert shapes["gru.weight_ih_l0"] == (18, 4) and shapes["gru.weight_hh_l0"] == (18, 6)
    np.testing.assert_array_equal(state["gru.weight_hh_l0"], arrays["state"]["weights"].T)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    gru = torch.nn.GRU(4, 6, batch_first=True)
    parts = {n.removeprefix("gru."): torch.tensor(a) for n, a in state.items() if "gru." in n}
    gru.load_state_dict(parts)
    words = torch.tensor(state["embedding.weight"])[torch.tensor(x).long()]
    states = gru(words)[0].detach().numpy()
    by_torch = states @ state["dense.0.weight"].T + state["dense.0.bias"]
    np.testing.assert_allclose(by_torch, own.predict(x), atol=2e-5)


class Halves(fl.problems.Logistic):
    """A problem of one's own, which scores as no class of fedloom does."""

    def predict(self, model, x):
        return super().predict(model, x) / 2


def test_a_problem_of_ones_own_predicts_and_is_not_taken_for_another(tmp_path):
    arrays = arrays_of(fl.problems.Logistic(), 2)
    own = hub_model(Halves(), arrays, (3,), ["no", "yes"])
    np.testing.assert_allclose(own.predict(X), X @ arrays / 2, atol=1e-6)
    with pytest.raises(fl.FedloomError, match="a network of your own cannot be named"):
        own.save(tmp_path / "own.safetensors")
    with pytest.raises(fl.FedloomError, match="must be one of fedloom's own"):
        own.export_onnx(tmp_path / "own.onnx")
    with pytest.raises(fl.FedloomError, match="has no coefficients of columns"):
        fl.deploy.coefficients(own)


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    own = hub_model(fl.problems.Logistic(), np.ones(3, np.float32), (3,), ["no", "yes"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(fl.FedloomError, match=r"needs onnx.*Install fedloom\[export\]"):
        own.export_onnx(tmp_path / "own.onnx")


def test_the_hubs_model_and_a_clients_of_a_linear_problem_are_taken():
    rows = [(RNG.normal(size=(m, 3)), np.arange(m) % 2) for m in (6, 9)]
    clients = fl.data.from_arrays(rows)
    method = fl.algorithms.PFedMe(lr=0.1, penalty=1.0)
    problem = fl.problems.Logistic(intercept=True)
    result = fl.simulate(method, problem, clients, rounds=3, precision="float64")
    hub = fl.deploy.take(method, problem, clients, result)
    own = fl.deploy.take_all(method, problem, clients, result)
    x = rows[0][0]
    expected = x @ result.model["weights"] + result.model["bias"]
    np.testing.assert_allclose(hub.predict(x)[:, 0], expected, rtol=1e-12)
    for i, model in enumerate(own):
        right = (model.predict(rows[i][0])[:, 0] > 0) == rows[i][1]
        assert right.mean() == pytest.approx(result.client_metrics["accuracy"][i])
    assert not np.allclose(own[0].predict(x), own[1].predict(x))


PREPARED = Preparation(
    "sick",
    ["no", "yes"],
    [Column("age", 2, mean=50.0, deviation=10.0), Column("job", 0, words=["cook", "nurse"])],
    [{"site": "north", "rows": 12}],
)


def linear(weights, bias=0.5):
    model = {"weights": np.array(weights, np.float64), "bias": np.float64(bias)}
    problem = fl.problems.Logistic(intercept=True)
    return hub_model(problem, model, (len(weights),), ["no", "yes"], PREPARED)


def test_coefficients_have_the_names_of_columns_odds_ratios_and_signs_at_sites():
    hub = linear([1.0, -2.0, 0.0, 3.0])
    sites = {"north": linear([2.0, -1, -1, 1]), "south": linear([-1.0, -1, 0, 1])}
    table = fl.deploy.coefficients(hub, sites)
    rows = {row["feature"]: row for row in table.to_dicts()}
    assert list(rows) == ["age", "age is missing", "job=cook", "job=nurse", "(intercept)"]
    assert rows["age"]["coefficient"] == 1 and rows["age"]["per unit"] == pytest.approx(0.1)
    assert rows["age"]["odds ratio"] == pytest.approx(np.e)
    assert rows["age"]["odds ratio per unit"] == pytest.approx(np.exp(0.1))
    assert rows["job=nurse"]["per unit"] == 3
    # With columns as they are: 0.5 - 0.1 * 50 + 0.1 age is 0.5 + (age - 50) / 10.
    assert rows["(intercept)"]["per unit"] == pytest.approx(-4.5)
    assert (rows["age"]["positive"], rows["age"]["negative"]) == (1, 1)
    assert (rows["job=cook"]["positive"], rows["job=cook"]["negative"]) == (0, 1)
    assert rows["age"]["at south"] == -1


def test_coefficients_of_several_classes_are_against_the_first():
    problem = fl.problems.Multinomial(intercept=True)
    model = {"weights": np.array([[1.0, 2, 4], [0, 0, 1]]), "bias": np.array([1.0, 0, 0])}
    rows = fl.deploy.coefficients(hub_model(problem, model, (2,), list("abc"))).to_dicts()
    found = {(row["feature"], row["class"]): row["coefficient"] for row in rows}
    assert found[("x0", "b")] == 1 and found[("x0", "c")] == 3 and found[("(intercept)", "b")] == -1
    value = hub_model(fl.problems.LeastSquares(), np.ones(2), (2,), None)
    assert fl.deploy.coefficients(value).columns == ["feature", "coefficient", "per unit"]


def test_the_preparation_goes_along_without_counts_of_rows(tmp_path):
    import polars as pl

    own, new = linear([1.0, -2.0, 0.0, 3.0]), pl.DataFrame({"age": [60, None], "job": ["cook"] * 2})
    own.save(tmp_path / "own.safetensors")
    again = fl.load(tmp_path / "own.safetensors")
    assert again.predict_table(new).equals(own.predict_table(new))
    assert again.preparation.sites == [] and again.preparation.features == PREPARED.features
    assert again.preparation.columns[0].missing == 1
    own.export_torch(tmp_path / "torch.safetensors")
    with safe_open(tmp_path / "torch.safetensors", "np") as file:
        assert '"mean": 50.0' in file.metadata()["fedloom"] and "north" not in str(file.metadata())


def test_columns_that_were_encoded_beforehand_are_known_by_the_names_of_features():
    import polars as pl

    listed = ["a=b", "job"]
    found = plain_encoding("y", [0, 1], ["a=b", "job=cook", "job=nurse"], listed)
    assert found.features == ["a=b", "job=cook", "job=nurse"]
    frame = pl.DataFrame({"job": ["nurse", "pilot"], "a=b": [2.0, 3.0]})
    np.testing.assert_array_equal(found.encode("new", frame), [[2, 0, 1], [3, 0, 0]])
    assert [c.name for c in plain_encoding("y", None, ["age", "job=cook"]).columns] == [
        "age",
        "job",
    ]
    gap = frame.with_columns(pl.Series("a=b", [None, 1.0]))
    with pytest.raises(fl.FedloomError, match=r"must have a value in every row.*1 of 2 rows"):
        found.encode("new", gap)
