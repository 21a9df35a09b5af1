"""What vertical learning stands on: blocks of columns, losses, metrics, joint prediction."""

import dataclasses
import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import fedloom as fl
from fedloom.algorithms import EGVFL, FedAvg, SplitTraining
from fedloom.deploy.shares import SHARE
from fedloom.exchange import wire
from fedloom.measuring import party_scores
from fedloom.operators import blocks
from fedloom.operators.blocks import Dense, Sparse, block
from fedloom.problems.losses import LOSSES


def long_tailed(rows=300, width=40):
    """A sparse matrix with empty rows and columns, and one column of many chunks."""
    a = random_array((rows, width), density=0.02, rng=np.random.default_rng(0)).toarray()
    a[:, 3], a[5], a[:, 7] = np.arange(rows) % 3, 0, 0
    return csr_array(a)


@jax.jit
def both_products(made, x, y):
    return made.forward(x), made.adjoint(y)


@jax.jit
def parts_of(made, rows, columns, x, y):
    """Products of some rows and columns, and matrices."""
    return {
        "forward": made.some_of_forward(rows, x),
        "adjoint": made.some_of_adjoint(columns, y),
        "rows": made.some_rows(rows).matrix(),
        "matrix": made.matrix(),
        "gram": made.gram(),
    }


def test_sparse_products_are_scipys(double):
    a = long_tailed()
    made = block(a, "float64")
    assert isinstance(made, Sparse)
    rng = np.random.default_rng(1)
    for tail in ((), (3,)):
        x, y = rng.normal(size=(40, *tail)), rng.normal(size=(300, *tail))
        forward, adjoint = both_products(made, x, y)
        np.testing.assert_allclose(forward, a @ x, atol=1e-12)
        np.testing.assert_allclose(adjoint, a.T @ y, atol=1e-12)
    assert made.some_rows(slice(None)) is made
    some, columns = np.array([7, 0, 299]), np.array([3, 7])
    found = parts_of(made, some, columns, np.ones(40), np.ones(300))
    np.testing.assert_allclose(found["forward"], a[some].sum(1), atol=1e-12)
    np.testing.assert_array_equal(found["rows"], a[some].toarray())
    np.testing.assert_allclose(found["adjoint"], a.sum(0)[columns], atol=1e-12)
    np.testing.assert_array_equal(found["matrix"], a.toarray())
    np.testing.assert_allclose(found["gram"], (a.T @ a).toarray(), atol=1e-12)


@pytest.mark.parametrize("tail", [(), (3,)], ids=["a vector", "columns"])
def test_dense_products_are_numpys(tail, double):
    rng = np.random.default_rng(2)
    a, x, y = (rng.normal(size=shape) for shape in ((5, 4), (4, *tail), (5, *tail)))
    made = block(a, "float64")
    assert isinstance(made, Dense) and made.shape == (5, 4)
    forward, adjoint = both_products(made, x, y)
    np.testing.assert_allclose(forward, a @ x, atol=1e-13)
    np.testing.assert_allclose(adjoint, a.T @ y, atol=1e-13)
    some = np.array([3, 0])
    found = parts_of(made, some, some, x, y)
    np.testing.assert_allclose(found["forward"], (a @ x)[some], atol=1e-13)
    np.testing.assert_allclose(found["adjoint"], (a.T @ y)[some], atol=1e-13)
    np.testing.assert_array_equal(found["rows"], a[some])
    np.testing.assert_allclose(found["gram"], a.T @ a, atol=1e-13)
    np.testing.assert_array_equal(found["matrix"], a)


def test_rows_and_columns_of_every_length():
    """From none to all entries, so that buckets and chunks of every size occur, exactly filled."""
    rows, width = 260, 270
    lengths = np.zeros(rows, int)
    lengths[:12] = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 0, 270)
    a = np.zeros((rows, width))
    for i, length in enumerate(lengths):
        a[i, :length] = np.arange(1, length + 1)
    for column, height in ((20, 63), (21, 64), (22, 65), (23, 128), (24, 129), (25, 0)):
        a[:, column] = 0
        a[rows - height :, column] = np.arange(1, height + 1) if height else 0
    made = block(csr_array(a), "float64")
    assert isinstance(made, Sparse)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=width), rng.normal(size=rows)
    with jax.enable_x64(True):
        forward, adjoint = both_products(made, x, y)
    np.testing.assert_allclose(forward, a @ x, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(adjoint, a.T @ y, rtol=1e-12, atol=1e-10)


def test_a_sparse_block_takes_the_room_of_its_nonzeros():
    a = csr_array((np.ones(5000), (np.arange(5000), np.arange(5000))), shape=(5000, 5000))
    made = block(a, "float32")
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(made)) < 4 * a.nnz * 4 * 64
    # One long row does not make the others longer: at most half of the places are padding.
    a = a + csr_array((np.ones(700), (np.full(700, 3), np.arange(700))), shape=a.shape)
    made = block(a, "float32")
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(made.buckets)) <= 2 * a.nnz * 8
    assert isinstance(block(np.eye(3), "float32"), Dense)
    assert isinstance(block(csr_array(np.eye(3)), "float32"), Dense)  # a third is nonzero


def test_a_gpu_has_dense_products_of_what_is_small_enough(monkeypatch):
    """100 x 100 numbers, of which one in a hundred is nonzero."""
    eye = csr_array(np.eye(100))
    assert isinstance(block(eye, "float32"), Sparse)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for dtype, size in (("float32", 40_000), ("float64", 80_000)):
        for limit, expected in ((size + 1, Dense), (size, Sparse)):
            monkeypatch.setattr(blocks, "_LARGEST_ON_GPU", limit)
            assert isinstance(block(eye, dtype), expected)


@functools.partial(jax.jit, static_argnames="name")
def slopes_and_points(name, labels, v, step):
    """Gradients, curvature, and proximal points with the gradients there, as one program."""
    loss = LOSSES[name](labels, 3, "float64", weight=0.7)
    scaled = loss.scaled(1.7)
    points = loss.prox(v, step), scaled.prox(v, step)
    slopes = loss.grad(points[0]), scaled.grad(points[1])
    return loss.grad(v), jax.grad(loss.value)(v), jax.jacfwd(loss.grad)(v), points, slopes


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("step", [0.3, 40.0])
def test_gradients_and_proximal_maps(name, step, double):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 12) if name == "softmax" else rng.choice([-1.0, 1.0], 12)
    loss = LOSSES[name](labels, 3, "float64", weight=0.7)
    v = 5 * rng.normal(size=loss.zeros().shape)
    grad, differentiated, curvature, *proximal = slopes_and_points(name, labels, v, step)
    np.testing.assert_allclose(grad, differentiated, atol=1e-12)
    for z, slope in zip(*proximal, strict=True):  # of the loss, and of the scaled one
        np.testing.assert_allclose((np.asarray(z) - v) / step + slope, 0, atol=1e-11)
    curvature = np.asarray(curvature).reshape(v.size, v.size)
    assert np.linalg.eigvalsh(curvature)[-1] <= loss.smoothness + 1e-12
    if name == "squared":
        np.testing.assert_allclose(loss.grad(loss.conjugate_grad(jnp.asarray(v))), v, atol=1e-12)
    else:
        with pytest.raises(fl.FedloomError, match="smooth conjugate"):
            loss.conjugate_grad(v)


def test_shares_lie_with_their_parties_and_predict_together(tmp_path):
    iris = fl.data.load("iris")
    parties = fl.data.partition(
        iris, "features", parties=3, standardise=True, test_fraction=0.2, seed=1
    )
    assert parties.widths == (2, 1, 1) and parties.rows == 120
    problem = fl.problems.Vertical(loss="softmax", l2=0.1)
    result = fl.simulate(
        EGVFL(step=0.05),
        problem,
        parties,
        rounds=400,
        metrics=("accuracy", "objective", "residual"),
    )
    assert result.final["objective"] < 1.2 * fl.reference(problem, parties).value
    assert list(result.clients["client"]) == list(parties.names)
    assert list(result.clients["features"]) == [2, 1, 1]
    fl.save_shares(result, tmp_path)
    assert sorted(path.parent.name for path in tmp_path.glob("*/share.safetensors")) == sorted(
        parties.names
    )
    held_out = dict(zip(parties.names, parties.test_features, strict=True))
    scores = fl.joint_predict(problem, held_out, tmp_path)
    accuracy = np.mean(scores.argmax(1) == parties.test_y)
    assert accuracy == pytest.approx(result.final["accuracy"])
    with pytest.raises(fl.FedloomError, match="share has"):
        wrong = held_out | {"party 0": held_out["party 1"]}
        fl.joint_predict(problem, wrong, tmp_path)


def test_scores_are_of_all_parties_of_the_run_and_of_the_same_rows(tmp_path):
    rng = np.random.default_rng(0)
    features = {
        name: rng.normal(size=(20, width)) for name, width in (("p", 2), ("q", 1), ("r", 3))
    }
    problem = fl.problems.Vertical(loss="squared")
    parties = fl.data.from_parties(features, features["p"].sum(1) + features["r"].sum(1))
    result = fl.simulate(EGVFL(step=0.1), problem, parties, rounds=2)
    fl.save_shares(result, tmp_path)
    whole = fl.joint_predict(problem, features, tmp_path)
    backwards = dict(reversed(features.items()))
    np.testing.assert_array_equal(fl.joint_predict(problem, backwards, tmp_path), whole)
    few = {name: features[name] for name in ("p", "r")}
    said = "features must be given for p, q, r, with whom the share of 'p' was trained; got p, "
    for others in (few, features | {"s": features["q"]}):
        with pytest.raises(fl.FedloomError, match=said):
            fl.joint_predict(problem, others, tmp_path)
    with pytest.raises(fl.FedloomError, match="the same rows; got rows of p: 20, q: 19, r: 20"):
        fl.joint_predict(problem, features | {"q": features["q"][1:]}, tmp_path)
    for name, share in result.model.items():  # as older versions and sites wrote it
        wire.write_file(tmp_path / name / SHARE, share)
    np.testing.assert_array_equal(fl.joint_predict(problem, features, tmp_path), whole)
    with pytest.raises(fl.FedloomError, match="for p, q, r, whose shares lie in"):
        fl.joint_predict(problem, few, tmp_path)
    with pytest.raises(fl.FedloomError, match="there are no shares"):
        fl.joint_predict(problem, features, tmp_path / "elsewhere")


def test_a_fusion_network_predicts_from_the_embeddings_of_all_parties(tmp_path):
    digits = fl.data.load("digits")
    halves = fl.data.partition(
        digits, "features", parties=2, standardise=True, test_fraction=0.2, seed=1
    )
    small = fl.models.MLP(hidden=(16,))
    problem = fl.problems.Vertical(
        loss="softmax", mean=True, network=small, embedding=8, fusion=small
    )
    method = SplitTraining(lr=0.2)
    result = fl.simulate(
        *(method, problem, halves),
        **{"rounds": 200, "batch_size": 32, "eval_every": 200, "metrics": ("accuracy", "sparsity")},
    )
    assert result.final["accuracy"] > 0.9
    assert list(result.model) == ["label party", *halves.names]
    fl.save_shares(result, tmp_path)
    held_out = dict(zip(halves.names, halves.test_features, strict=True))
    scores = fl.joint_predict(problem, held_out, tmp_path)
    assert np.mean(scores.argmax(1) == halves.test_y) == pytest.approx(result.final["accuracy"])
    other = dataclasses.replace(problem, fusion=fl.models.MLP(hidden=(15,)))
    with pytest.raises(fl.FedloomError, match="no fusion model of this problem"):
        fl.joint_predict(other, held_out, tmp_path)


def test_problems_and_holders_must_fit():
    parties = fl.data.from_parties([np.ones((4, 1)), np.ones((4, 2))], np.arange(4.0))
    clients = fl.data.from_arrays([(np.ones((4, 1)), np.arange(4.0))])
    with pytest.raises(fl.FedloomError, match="parties with columns"):
        fl.simulate(EGVFL(step=0.1), fl.problems.Vertical(), clients)
    with pytest.raises(fl.FedloomError, match="need a vertical problem"):
        fl.simulate(FedAvg(lr=0.1), fl.problems.LeastSquares(), parties)
    with pytest.raises(fl.FedloomError, match=r"'logistic' needs class labels.*pass integers"):
        fl.simulate(EGVFL(step=0.1), fl.problems.Vertical(loss="logistic"), parties)
    several = fl.data.from_parties([np.ones((4, 1))], np.arange(4))
    with pytest.raises(fl.FedloomError, match=r"'logistic' needs labels of 2 classes.* have 4"):
        fl.simulate(EGVFL(step=0.1), fl.problems.Vertical(loss="logistic"), several)
    one = fl.data.from_parties([np.ones((4, 1))], np.zeros(4, int))
    with pytest.raises(fl.FedloomError, match=r"'softmax' needs labels of 2 classes or more.* 1"):
        fl.simulate(EGVFL(step=0.1), fl.problems.Vertical(loss="softmax"), one)
    with pytest.raises(fl.FedloomError, match="takes no regulariser"):
        fl.simulate(EGVFL(step=0.1), fl.problems.Vertical(regulariser=fl.problems.L1(1)), parties)
    with pytest.raises(fl.FedloomError, match="metrics must be among"):
        fl.simulate(EGVFL(step=0.1), fl.problems.Vertical(), parties, metrics=("speed",))


@pytest.mark.parametrize("mean", [True, False])
def test_the_loss_of_some_rows_is_brought_to_that_of_all(mean, double):
    problem = fl.problems.Vertical(loss="squared", mean=mean)
    parts, labels = np.arange(8.0).reshape(2, 4), np.array([1.0, -2, 0, 3])
    found = problem.rows_loss(jnp.zeros(0), jnp.asarray(parts), jnp.asarray(labels), 12, 2)
    of_each = 0.5 * (parts.sum(0) - labels) ** 2
    assert float(found) == pytest.approx(of_each.mean() * (1 if mean else 12))


def test_a_fusion_network_is_held_small_by_l2():
    fed = SimpleNamespace(problem=fl.problems.Vertical(l2=0.5))
    assert party_scores.fusion_penalty(fed, [jnp.array([1.0, -3.0])]) == 2.5
    assert party_scores.fusion_penalty(fed, []) == 0
