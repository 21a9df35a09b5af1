"""Linear models of counts, of survival and of several labels are taken away as others are."""

import numpy as np
import onnxruntime
import pytest

import fedloom as fl
from fedloom.deploy.networks import title
from fedloom.deploy.taking import hub_model

W = np.array([0.5, -1e-9, -2.0], np.float32)
X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
KINDS = {
    "poisson": (fl.problems.Poisson(), {"weights": W, "bias": np.float32(0.25)}, None),
    "cox": (fl.problems.Cox(), W, None),
    "multi_label": (fl.problems.MultiLabel(labels=2), np.stack([W, -W], 1), (0, 1)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_predicts_as_the_problem_does(kind, tmp_path):
    problem, arrays, labels = KINDS[kind]
    own = hub_model(problem, arrays, (3,), labels)
    said = np.asarray(problem.predict(arrays, X)).reshape(5, -1)
    own.save(tmp_path / "own.safetensors")
    own.export_torch(tmp_path / "own-torch.safetensors")
    own.export_onnx(tmp_path / "own.onnx")
    for model in (own, fl.load(tmp_path / "own.safetensors")):
        np.testing.assert_allclose(model.predict(X), said, rtol=1e-6)
    session = onnxruntime.InferenceSession(tmp_path / "own.onnx")
    found = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, {"x": X}), strict=True)
    )
    if kind == "poisson":
        np.testing.assert_allclose(found["predictions"], said, rtol=1e-5)
    else:
        np.testing.assert_allclose(found["scores"], said, rtol=1e-5, atol=1e-6)
    if kind == "multi_label":
        np.testing.assert_allclose(found["probabilities"], 1 / (1 + np.exp(-said)), rtol=1e-5)


def test_their_ratios_have_their_names():
    tables = {kind: fl.deploy.coefficients(hub_model(p, a, (3,), labels))
              for kind, (p, a, labels) in KINDS.items()}  # fmt: skip
    assert tables["poisson"]["rate ratio"].to_list() == pytest.approx(np.exp([*W, 0.25]))
    assert tables["cox"]["hazard ratio"].to_list() == pytest.approx(np.exp(W))
    assert tables["multi_label"]["label"].to_list() == [0] * 4 + [1] * 4
    assert "odds ratio" in tables["multi_label"].columns


def test_rounding_errors_have_no_sign_and_sites_without_a_model_are_empty():
    problem, arrays, _ = KINDS["cox"]
    hub = hub_model(problem, arrays, (3,), None)
    table = fl.deploy.coefficients(hub, {"lyon": hub, "paris": None})
    assert table["positive"].to_list() == [1, 0, 0] and table["negative"].to_list() == [0, 0, 1]
    assert table["at paris"].null_count() == 3


def test_messages_about_models_of_functions_show_no_functions():
    pair = fl.models.Pair(lambda key, spec: W, lambda arrays, x: x @ arrays)
    model = fl.deploy.Deployed(pair, W, (3,), ())
    assert "0x" not in title(pair)
    for act in (lambda: fl.deploy.coefficients(model), lambda: model.export_onnx("no.onnx")):
        with pytest.raises(fl.FedloomError, match="own") as caught:
            act()
        assert "0x" not in str(caught.value)
