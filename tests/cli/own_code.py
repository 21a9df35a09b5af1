"""Code of somebody's own, for tests of settings that name it, and a package that announces some."""

METHOD = '''
"""A method of one's own."""

from __future__ import annotations

from typing import NamedTuple

from fedloom.cohorts import uniform
from fedloom.parameters import instance_of, param, positive
from fedloom.problems import L1, Regulariser
from fedloom.protocol import Algorithm, algorithm, ask


class Hub(NamedTuple):
    model: object


@algorithm
class MyMethod(Algorithm):
    """One gradient step a round."""

    lr: float = param(positive, "step size")
    half: float = param(positive, "a number with a default", default=0.5)

    def init_hub(self, fed, key, /):
        return Hub(fed.init_model(key))

    def round(self, hub, fed, key, /):
        slopes = yield ask(self.slope, hub.model, to=uniform(key, fed.n, None))
        return Hub(hub.model - self.lr * slopes.estimate(fed.weights)), ()

    def slope(self, client, model, f, key, /):
        return client, f.grad(model, key)


class NotMarked(MyMethod):
    pass


@algorithm
class Shrinking(MyMethod):
    """The same, with a regulariser of its own."""

    penalty: Regulariser = param(instance_of(Regulariser), "g", default=L1(1.0))

    def round(self, hub, fed, key, /):
        slopes = yield ask(self.slope, hub.model, to=uniform(key, fed.n, None))
        return Hub(self.penalty.prox_of(hub.model - slopes.estimate(fed.weights), self.lr)), ()


number = 3
'''

PARTS = '''
"""Everything else of one's own."""

import jax.numpy as jnp
import numpy as np

import fedloom as fl
from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.data.schemes import Scheme
from fedloom.models.base import Model
from fedloom.operators.aggregators import Aggregator
from fedloom.operators.compressors import Unbiased
from fedloom.parameters import at_least, instance_of, param, parametrised, positive
from fedloom.problems.regularisers import Regulariser
from fedloom.protocol import Algorithm, algorithm, relay


def rings(rows=60):
    """Two rings."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 2
    x = rng.normal(size=(rows, 3)).astype(np.float32) + y[:, None]
    return fl.data.Dataset("rings", x, y, labels=np.array(["a", "b"]))


def broken():
    return {}["nothing"]


def wrong():
    return 3


@parametrised
class Halves(Scheme):
    """The first rows, and the others."""

    first: int = param(at_least(1), "how many rows the first client has")

    def divide(self, dataset, rng):
        rows = np.arange(len(dataset))
        return {"first": rows[: self.first], "second": rows[self.first :]}


@parametrised
class Linear(Model):
    """A linear network."""

    scale: float = param(positive, "of the start", default=1.0)

    def init(self, key, spec):
        return {"weights": jnp.zeros((*spec.features, spec.classes))}

    def apply(self, arrays, x):
        return x @ arrays["weights"]


@parametrised
class Ridge(Regulariser):
    """(weight / 2) |x|^2."""

    weight: float = param(positive, "of the penalty")
    on: tuple[str, ...] | None = None

    def value_of(self, array):
        return 0.5 * self.weight * (array * array).sum()

    def prox_of(self, array, step):
        return array / (1 + step * self.weight)


@parametrised
class MyProblem(fl.problems.Supervised):
    """A problem of one's own."""

    model: Model = param(instance_of(Model), "the network")
    extra: Regulariser = param(instance_of(Regulariser), "another one", default=Ridge(1.0))


@parametrised
class Same(Unbiased):
    """Nothing is lost."""

    def compress(self, v, key):
        return v

    def restore(self, message, like, key=None):
        return message

    def omega(self, like):
        return 1.0


@parametrised
class First(Aggregator):
    """The first reply."""

    def combine(self, values, weights, there):
        return values[0]


@algorithm
class Loud(Wrapper):
    """Passes everything on."""

    inner: Algorithm = param(instance_of(Algorithm), "the method inside")
    volume: float = param(positive, "how loud", default=1.0)

    def round(self, hub, fed, key, /):
        return (yield from relay(self.inner.round(hub, fed, key)))


brier = fl.Metric(lambda model, rows: (rows.y - 0.5) ** 2, larger_is_better=False)
'''


def announced(folder, name="theirs", module=METHOD, version="2.0", **groups):
    """An installed package, as `pip install` would leave it; groups are lines of entry points."""
    (folder / f"{name}.py").write_text(module)
    facts = folder / f"{name}-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[fedloom.{group}]\n{points}\n" for group, points in groups.items()]
    (facts / "entry_points.txt").write_text("\n".join(lines))
