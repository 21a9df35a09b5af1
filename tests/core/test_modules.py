"""Modules of Equinox and Flax: they train as they are, and what has state or chance is refused."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.errors import DataError, ParameterError
from fedloom.rows import Drawn, Spec

SPEC = Spec((3,), 2, "float32")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def library(name):
    return pytest.importorskip(name, reason=f"{name} is optional and not installed here")


def trained(model):
    """Some rounds on two clients, whose loss goes down."""
    clients = fl.data.from_arrays([(X[:12], Y[:12]), (X[12:], Y[12:])])
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.3, local_steps=4),
        fl.problems.Supervised(model),
        clients,
        rounds=15,
        batch_size=6,
        eval_every=15,
    )
    assert result.final["loss"] < 0.6 * result.rows[0]["loss"]
    return result


def test_the_example_of_the_page_runs():
    library("equinox")
    library("flax")
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    code = page.partition('```python title="modules.py"\n')[2].partition("```")[0]
    made = {}
    exec(code, made)
    assert made["result"].final["accuracy"] > 0.5 and callable(made["trained"])


@pytest.mark.parametrize(("name", "make"), [("equinox", "from_equinox"), ("flax", "from_flax")])
def test_a_library_that_is_not_here_is_named(name, make, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    given = (None,) if name == "equinox" else (None, X[:1])
    with pytest.raises(ParameterError, match=f"{make}: it needs {name}.*pip install {name}"):
        getattr(fl.models, make)(*given)


def test_an_equinox_module_trains_from_its_own_arrays():
    eqx = library("equinox")
    module = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(1))
    model = fl.models.from_equinox(module)
    start = model.init(jax.random.key(2), SPEC)
    np.testing.assert_array_equal(start.layers[0].weight, module.layers[0].weight)
    np.testing.assert_allclose(model.apply(start, X), jax.vmap(module)(X), rtol=1e-6)
    result = trained(model)
    learned = eqx.combine(result.model, module)
    np.testing.assert_allclose(jax.vmap(learned)(X), model.apply(result.model, X), rtol=1e-6)


def test_what_an_equinox_module_must_not_have():
    eqx = library("equinox")
    key = jax.random.key(0)
    dense = eqx.nn.Linear(3, 2, key=key)
    with pytest.raises(ParameterError, match=r"must be an equinox.Module.*tuple"):
        fl.models.from_equinox((dense, None))

    class Keyless(eqx.Module):
        inner: eqx.nn.Dropout

        def __call__(self, x):
            return self.inner(x)

    with pytest.raises(ParameterError, match=r"must take key=.*inference_mode\(module\)"):
        fl.models.from_equinox(Keyless(eqx.nn.Dropout(0.5)))
    norm, _ = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="ema")
    with pytest.raises(ParameterError, match=r"keep no state.*GroupNorm"):
        fl.models.from_equinox(eqx.nn.Sequential([norm, dense]))


def drops(model):
    """Dropout is on in training and nowhere else, and a row's own."""
    start = model.init(jax.random.key(0), SPEC)
    said = model.apply(start, X)
    key = draws.key(1)
    trained = model.train_apply(start, X, Drawn(key, None))
    few = model.train_apply(start, X[:5], Drawn(key, np.ones(5, bool)))
    np.testing.assert_allclose(trained[:5], few, rtol=1e-5)
    np.testing.assert_array_equal(model.train_apply(start, X, Drawn(None, None)), said)
    assert not np.allclose(trained, said, atol=1e-3)
    keys = jax.random.split(key, 2000)
    many = jax.vmap(lambda key: model.train_apply(start, X[:2], Drawn(key, None)))(keys)
    np.testing.assert_allclose(many.mean(0), said[:2], atol=0.1)  # linear in what is dropped


def test_dropout_of_equinox_draws_by_the_batch_in_training():
    eqx = library("equinox")
    key = jax.random.key(0)
    layers = [eqx.nn.Linear(3, 8, key=key), eqx.nn.Dropout(0.5), eqx.nn.Linear(8, 2, key=key)]
    module = eqx.nn.Sequential(layers)
    drops(fl.models.from_equinox(module))
    off = fl.models.from_equinox(eqx.nn.inference_mode(module))
    start = off.init(key, SPEC)
    drawn = Drawn(draws.key(1), None)
    np.testing.assert_array_equal(off.train_apply(start, X, drawn), off.apply(start, X))


def test_an_equinox_module_of_another_shape_is_refused_with_both():
    eqx = library("equinox")
    key = jax.random.key(0)
    model = fl.models.from_equinox(eqx.nn.Linear(3, 2, key=key))
    with pytest.raises(DataError, match="3 numbers for each row, one for each class"):
        model.init(key, Spec((3,), 3, "float32"))
    with pytest.raises(
        DataError, match=r"one row of shape \(5, 5, 1\), images with their channels"
    ):
        model.init(key, Spec((5, 5, 1), 2, "float32"))


def test_an_equinox_module_may_take_numbers_of_words(double):
    eqx = library("equinox")

    class Bag(eqx.Module):
        table: eqx.nn.Embedding

        def __call__(self, words):
            return jax.vmap(self.table)(words).mean(0)

    module = Bag(eqx.nn.Embedding(9, 2, key=jax.random.key(0)))
    model = fl.models.from_equinox(module)
    start = model.init(jax.random.key(0), Spec((4,), 2, "float64"))
    words = np.array([[1, 2, 2, 0], [8, 8, 8, 8]])
    table = np.asarray(module.table.weight, np.float64)
    np.testing.assert_allclose(model.apply(start, words), table[words].mean(1), rtol=1e-12)


def mlp(flax, dropout=False, batch_norm=False):
    nn = flax.linen

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train=True):
            x = nn.relu(nn.Dense(8)(x))
            if dropout:
                x = nn.Dropout(0.5, deterministic=not train)(x)
            if batch_norm:
                x = nn.BatchNorm(use_running_average=not train)(x)
            return nn.Dense(2)(x)

    return Net()


def test_a_linen_module_trains_and_draws_its_start():
    flax = library("flax")
    module = mlp(flax)
    model = fl.models.from_flax(module, X[:1])
    first, second = (model.init(jax.random.key(seed), SPEC) for seed in (0, 1))
    kernels = [arrays["params"]["Dense_0"]["kernel"] for arrays in (first, second)]
    assert kernels[0].shape == (3, 8) and not np.allclose(*kernels)
    result = trained(model)
    np.testing.assert_allclose(
        module.apply(result.model, X), model.apply(result.model, X), rtol=1e-6
    )


def test_what_a_linen_module_must_not_have():
    flax = library("flax")
    with pytest.raises(ParameterError, match=r"keeps batch_stats as well.*linen.GroupNorm"):
        fl.models.from_flax(mlp(flax, batch_norm=True), X[:1])
    dropout = mlp(flax, dropout=True)
    with pytest.raises(ParameterError, match=r"no random numbers in evaluation; Net does.*train="):
        fl.models.from_flax(dropout, X[:1])
    off = fl.models.from_flax(dropout, X[:1], train=False)
    drops(fl.models.from_flax(dropout, X[:1], in_training={"train": True}, train=False))
    assert off.apply(off.init(jax.random.key(0), SPEC), X).shape == (24, 2)
    with pytest.raises(ParameterError, match=r"flax.linen.Module or a flax.nnx.Module; got dict"):
        fl.models.from_flax({}, X[:1])
    with pytest.raises(ParameterError, match=r"example must be rows.*x\[:1\]"):
        fl.models.from_flax(dropout, X[0], train=False)
    with pytest.raises(DataError, match=r"of shape \(4,\); got \(3,\)"):
        off.init(jax.random.key(0), Spec((4,), 2, "float32"))
    with pytest.raises(DataError, match="5 numbers for each row"):
        off.init(jax.random.key(0), Spec((3,), 5, "float32"))


def nnx_net(nnx, *, dropout=False, batch_norm=False, deterministic=None):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(3, 8, rngs=rngs)
            self.last = nnx.Linear(8, 2, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs) if dropout else None
            self.norm = nnx.BatchNorm(8, rngs=rngs) if batch_norm else None

        def __call__(self, x):
            x = nnx.relu(self.first(x))
            x = self.dropout(x, deterministic=deterministic) if self.dropout else x
            return self.last(self.norm(x) if self.norm else x)

    return Net(nnx.Rngs(0))


def test_an_nnx_module_trains_from_its_own_arrays():
    library("flax")
    from flax import nnx

    module = nnx_net(nnx)
    model = fl.models.from_flax(module, X[:1])
    start = model.init(jax.random.key(3), SPEC)
    np.testing.assert_array_equal(start["first"]["kernel"], module.first.kernel[...])
    np.testing.assert_allclose(model.apply(start, X), module(X), rtol=1e-6)
    result = trained(model)
    nnx.update(module, result.model)
    np.testing.assert_allclose(module(X), model.apply(result.model, X), rtol=1e-6)


def test_what_an_nnx_module_must_not_have():
    library("flax")
    from flax import nnx

    with pytest.raises(ParameterError, match=r"keeps BatchStat as well.*nnx.GroupNorm"):
        fl.models.from_flax(nnx_net(nnx, batch_norm=True), X[:1])
    module = nnx_net(nnx, dropout=True)
    with pytest.raises(ParameterError, match="in_training is for modules of flax"):
        fl.models.from_flax(module, X[:1], in_training={})
    module = nnx_net(nnx, dropout=True, deterministic=False)
    with pytest.raises(ParameterError, match="draw no random numbers in evaluation; Net does"):
        fl.models.from_flax(module, X[:1])


def test_dropout_of_nnx_draws_by_the_batch_in_training_and_is_off_after_eval():
    library("flax")
    from flax import nnx

    module = nnx_net(nnx, dropout=True)
    drops(fl.models.from_flax(module, X[:1]))
    module.eval()
    off = fl.models.from_flax(module, X[:1])
    start = off.init(jax.random.key(0), SPEC)
    np.testing.assert_allclose(off.apply(start, jnp.asarray(X)), module(X), rtol=1e-6)
    drawn = Drawn(draws.key(1), None)
    np.testing.assert_array_equal(off.train_apply(start, X, drawn), off.apply(start, X))
