"""A right method, and one for each law that breaks this law alone."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.cohorts import everyone, uniform
from fedloom.parameters import at_least, at_least_zero, param, positive
from fedloom.protocol import Algorithm, Cohort, algorithm, ask


class Hub(NamedTuple):
    model: Any


class Right(Algorithm):
    """A gradient step at a cohort; the other methods of this file differ by a mistake."""

    def init_hub(self, fed, key, /):
        return Hub(fed.init_model(key))

    def train(self, client, model, f, key, /):
        return client, -0.1 * f.grad(model, key)


@algorithm
class Good(Right):
    lr: float = param(positive, "step size")
    cohort: int = param(at_least(1), "clients asked in a round")
    decay: float = param(at_least_zero, "shrinks the model", default=0.0)

    def init_client(self, f, key, /):
        return f.zeros()

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return Hub((1 - self.decay) * hub.model + self.lr * replies.estimate(fed.weights)), ()

    def train(self, client, model, f, key, /):
        change = -f.grad(model, key) + 0.1 * client
        return change, change


@algorithm
class KeepsACounter(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        COUNTER.append(1)
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(hub.model + replies.mean() / len(COUNTER)), ()


COUNTER: list[int] = []


@algorithm
class DrawsWithNumPy(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(hub.model + replies.mean() + np.random.default_rng().normal(size=2)), ()


@algorithm
class HasAKeyOfItsOwn(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        noise = jax.random.normal(jax.random.key(3), hub.model.shape)
        return Hub(hub.model + self.lr * (1 + 0.1 * noise) * replies.mean()), ()

    def train(self, client, model, f, key, /):
        return client, -f.full_grad(model)


@algorithm
class PeeksAtOtherRows(Right):
    """Where the simulator keeps all rows in one array, a client sees those of others."""

    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(hub.model + self.lr * replies.mean()), ()

    def train(self, client, model, f, key, /):
        return client, f.held.rows.x.sum(0)


@algorithm
class RepeatsInSecret(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        ids = jax.random.randint(key, (4,), 0, fed.n).astype(np.int32)  # with replacement
        replies = yield ask(self.train, hub.model, to=Cohort(ids, np.ones(4, bool)))
        return Hub(hub.model + self.lr * replies.mean()), ()


@algorithm
class NamesCollide(Right):
    lr: float = param(positive, "step size", default=0.1)

    def init_hub(self, fed, key, /):
        zeros = jnp.zeros(2)
        return {"w": fed.init_model(key), "mean": {"x": zeros}, "mean/x": zeros + 1}

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub["w"], to=everyone(fed.n))
        step = replies.mean() * (1 + hub["mean/x"] - hub["mean"]["x"])
        return hub | {"w": hub["w"] + self.lr * step, "mean/x": hub["mean/x"] / 2}, ()

    def model(self, hub, fed, /):
        return hub["w"]


@algorithm
class WritesForTheAbsent(Right):
    """The hub keeps a row for each client, and writes those of absent clients too."""

    lr: float = param(positive, "step size", default=0.1)

    def init_hub(self, fed, key, /):
        model = fed.init_model(key)
        return model, jnp.zeros((fed.n, model.size))

    def round(self, hub, fed, key, /):
        model, table = hub
        replies = yield ask(self.train, model, to=everyone(fed.n))
        table = table.at[replies.cohort.ids].set(replies.value)
        return (model + self.lr * table.mean(0), table), ()

    def model(self, hub, fed, /):
        return hub[0]


@algorithm
class DividesByWhoCame(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        came = jnp.asarray(replies.cohort.present).sum()
        return Hub(hub.model + self.lr * replies.sum() / came), ()


@algorithm
class MovesByItself(Right):
    """The model shrinks even in a round that nobody answers."""

    lr: float = param(positive, "step size", default=0.1)

    def init_hub(self, fed, key, /):
        return Hub(fed.init_model(key) + 1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(0.9 * hub.model + self.lr * replies.mean()), ()


@algorithm
class ShapesFromNumbers(Right):
    share: Any = param(positive, "decides a shape, and so is no float", default=0.5)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(hub.model + 0.1 * replies.mean()), jnp.zeros(int(8 * self.share))


@algorithm
class CallsPython(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        # Not of 64 bits, which JAX would cut in the thread that it calls back in.
        shape = jax.ShapeDtypeStruct((), np.int32)
        once = jax.pure_callback(lambda lr: np.int32(1), shape, self.lr)
        return Hub(hub.model + once * self.lr * replies.mean()), ()


@algorithm
class PrefersTheFirst(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(hub.model + self.lr * replies.sum(1.0 / (1 + np.arange(fed.n)))), ()


@algorithm
class LooksIfItCan(Right):
    lr: float = param(positive, "step size", default=0.1)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        try:
            spread = jnp.where(replies.cohort.any(), replies.map(jnp.abs).mean(), 0)
        except Exception:
            spread = 0.0
        return Hub(hub.model + self.lr * (replies.mean() + spread)), ()


BREAKERS = {
    KeepsACounter: "purity",
    DrawsWithNumPy: "purity",
    HasAKeyOfItsOwn: "seeds",
    PeeksAtOtherRows: "engines",
    RepeatsInSecret: "bytes",
    NamesCollide: "resume",
    WritesForTheAbsent: "absence",
    DividesByWhoCame: "absence",
    MovesByItself: "absence",
    ShapesFromNumbers: "numbers",
    CallsPython: "sweeps",
    PrefersTheFirst: "order",
    LooksIfItCan: "secrecy",
}
