"""Dropout: by the key of a batch and the place of a row, in training and nowhere else."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.errors import ParameterError
from fedloom.models import MLP, Transformer
from fedloom.population import assemble
from fedloom.rows import Drawn, Spec

GRAPHS = Path(__file__).parents[1] / "graphs"
KEY = draws.key(4)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 6)).astype(np.float32)
WORDS = RNG.integers(0, 9, (9, 5))
PLACES = RNG.normal(size=(9, 5, 4)).astype(np.float32)
RATE = 0.25  # of the graph "dropout"


def graph(name):
    return fl.models.Graph(str(GRAPHS / f"{name}.safetensors"))


def begun(model, x):
    return model.init(jax.random.key(1), Spec(x.shape[1:], 3, "float32"))


@jax.jit
def in_training(model, arrays, x, key=KEY, counts=None):
    return model.train_apply(arrays, x, Drawn(key, counts))


@jax.jit
def in_evaluation(model, arrays, x):
    return model.apply(arrays, x)


def test_a_share_is_dropped_and_the_others_are_larger_by_what_keeps_the_mean():
    network = graph("dropout")
    arrays = begun(network, X)
    whole = np.asarray(network.apply(arrays, X))
    keys = jax.random.split(KEY, 300)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: in_training(network, arrays, X, key)))(keys))
    kept = drawn != 0
    assert abs(kept.mean() - (1 - RATE)) < 0.005  # over 108 000 draws
    larger = np.broadcast_to(whole / (1 - RATE), drawn.shape)
    np.testing.assert_allclose(drawn[kept], larger[kept], atol=1e-6)
    for axes in ((0, 1), (0, 2), (1, 2)):  # no row, no place and no key is special
        assert np.abs(kept.mean(axes) - (1 - RATE)).max() < 0.1
    assert np.abs(drawn.mean(0) - whole).max() < 0.2 * np.abs(whole).max()
    again = in_training(network, arrays, X, keys[0])
    np.testing.assert_allclose(again, drawn[0], atol=1e-6)


NETWORKS = [
    (graph("dropouts"), PLACES),
    (MLP((8, 7), dropout=0.5), X),
    (Transformer(10, 8, 2, 1, dropout=0.3), WORDS),
]


@pytest.mark.parametrize(("network", "x"), NETWORKS, ids=lambda v: type(v).__name__)
def test_a_rows_draws_do_not_depend_on_how_many_there_are(network, x):
    """A client's batch is padded in the simulator, and is not at a site."""
    arrays = begun(network, x)
    counts = np.arange(9) < 7
    padded = in_training(network, arrays, x, KEY, counts)[:7]
    alone = in_training(network, arrays, x[:7])
    np.testing.assert_allclose(padded, alone, atol=1e-5)
    whole = in_evaluation(network, arrays, x[:7])
    assert (np.abs(alone - whole).max(1) > 1e-3).all()  # every row lost something
    np.testing.assert_array_equal(in_training(network, arrays, x[:7], None), whole)


def test_a_network_is_the_mean_of_those_that_dropout_leaves():
    network = MLP((8,), dropout=0.5)  # linear in what is dropped
    arrays, keys = begun(network, X), jax.random.split(KEY, 3000)
    many = jax.jit(jax.vmap(lambda key: in_training(network, arrays, X, key)))(keys)
    whole = network.apply(arrays, X)
    assert np.abs(many.mean(0) - whole).max() < 0.05 * np.abs(whole).max()


def clients_of(labels):
    return fl.data.from_arrays([(X[:4], labels[:4]), (X[4:], labels[4:])])


CLASSES, COUNTS = np.arange(9) % 2, np.arange(9.0) + 0.5
TIMES = np.stack([np.arange(1.0, 10), np.arange(9) % 2], 1)


def smooth(f, w):
    return f.grad(w, KEY), f.full_grad(w)


def saddle(f, w):
    dual = jnp.ones_like(f.zeros_dual())
    return f.grads(w, dual, KEY)[0], f.full_grads(w, dual)[0]


def learnt(f, w):
    batch = f.draw(KEY)
    students = [f.own.outputs(f.own.init(KEY), batch._replace(key=None))]
    return f.teach(w, batch, students), f.teach(w, batch._replace(key=None), students)


@pytest.mark.parametrize(
    ("problem", "labels", "slopes"),
    [
        (fl.problems.Supervised, CLASSES, smooth),
        (fl.problems.Personal, CLASSES, smooth),
        (fl.problems.Personal, CLASSES, learnt),
        (fl.problems.MultiLabel, np.stack([CLASSES, 1 - CLASSES], 1), smooth),
        (fl.problems.Poisson, COUNTS, smooth),
        (fl.problems.Cox, TIMES, smooth),
        (lambda model: fl.problems.AUC(0.5, model=model), CLASSES, saddle),
        (lambda model: fl.problems.Adversarial(1.0, model=model), CLASSES, saddle),
    ],
)
def test_slopes_of_batches_see_it_and_those_of_all_rows_and_metrics_do_not(problem, labels, slopes):
    found = []
    for model in (MLP((8,)), MLP((8,), dropout=0.5)):
        posed, clients = problem(model=model), clients_of(labels)
        posed = posed.agree(clients)
        f = assemble(posed, clients, None, "float32").groups[0].objective(0)
        w = jnp.asarray(np.random.default_rng(2).normal(size=f.layout.size), "float32")
        scores = posed.predict(f.layout.unravel(w), X)
        found.append((*jax.jit(slopes, static_argnums=0)(f, w), scores))
    (of_batch, of_all, said), (thinned, all_again, said_again) = found
    assert not np.allclose(of_batch, thinned, atol=1e-4)
    np.testing.assert_allclose(of_all, all_again, atol=1e-5)
    np.testing.assert_array_equal(said, said_again)


def test_without_dropout_nothing_is_compiled_for_it():
    class Plain(MLP):  # a network that knows nothing of training
        train_apply = fl.models.Model.train_apply

    programs = []
    for model in (MLP((8,)), Plain((8,)), graph("digits")):
        rows = np.zeros((9, 8, 8, 1), np.float32) if isinstance(model, fl.models.Graph) else X
        clients = fl.data.from_arrays([(rows, CLASSES)])
        f = assemble(fl.problems.Supervised(model), clients, 4, "float32").groups[0].objective(0)
        programs.append(str(jax.make_jaxpr(f.grad)(jnp.zeros(f.layout.size), KEY)))
    assert programs[0] == programs[1]
    assert programs[2].count("random_fold_in") == 0


def test_a_rate_that_drops_everything_is_refused():
    with pytest.raises(ParameterError, match=r"MLP: dropout must be a number >= 0 and < 1; got 1"):
        MLP(dropout=1)
    assert MLP(dropout=0.5).dropout == 0.5 and jax.tree.leaves(MLP(dropout=0.5)) == []
