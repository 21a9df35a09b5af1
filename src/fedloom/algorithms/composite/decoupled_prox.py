"""DecoupledProx: composite optimisation that keeps the proximal map apart from the communication.

Zhang, Hu, Johansson. Composite federated learning with heterogeneous data. ICASSP 2024,
Algorithm 1.

    et = lr server_lr K;  the hub holds x, before the proximal map;  P = prox_{et g}(x)
    client i    zh = z = P;   for t = 0 .. K-1:
                    q_t = g_i(z);   zh <- zh - lr (q_t + c_i);   z <- prox_{(t+1) lr g}(zh)
                sends zh
    hub         x+ = P + server_lr (mean_i zh_i - P),  broadcast
    client i    c_i <- (P - x+) / et - mean_t q_t

What is averaged, zh, has seen no proximal map, so that sparsity is not averaged away; the
corrections c_i, whose mean is zero, cancel the drift of unlike clients. With full gradients the
optimum is an exact fixed point.

Paper            here                     Paper           here
x_bar            DecoupledProxHub.point   c_i             DecoupledProxClient.correction
tau, eta         local_steps, lr          eta_g           server_lr

With a cohort of two or more: the mean is over the cohort alone, with weights that sum to one;
absent clients keep their c_i, and the hub sends x+ once more to those who answered, so that they
renew their c_i (d numbers more). This leaves the sum of a_i c_i over the cohort as it was, so that
all of them still cancel, and makes g_i + c_i the same for the whole cohort. With full gradients the
optimum is still an exact fixed point, and absent or late clients cost only time. A cohort of one
has nobody to agree with: its c_i stay zero, it counts n a_i times, and the limit is off by the
noise of the draws and by the drift of local steps, both of which fall with lr.

With everyone, as printed, nobody may be away: a client that misses the broadcast would renew its
c_i by a later point, they would no longer cancel, and the method may diverge. Where clients come
and go, state a cohort, be it of all.

Differs from the paper: the broadcast of x+ and the start of the next round are one message. Partial
participation is not defined there.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import uniform
from fedloom.local import repeat
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Nothing


class DecoupledProxHub(NamedTuple):
    """The global point, before the proximal map."""

    point: Array


class DecoupledProxClient(NamedTuple):
    """The correction, and what it will be renewed from when the next global point is known."""

    correction: Array  # c_i
    start: Array  # P, where the last round began
    slope: Array  # the mean of that round's gradients
    pending: Array  # whether that round's correction is still to come


class _Inner(NamedTuple):
    """Where a client is within its local steps."""

    before: Array  # zh
    after: Array  # z
    slopes: Array  # the sum of the gradients so far
    taken: Array  # t


@algorithm
class DecoupledProx(Algorithm):
    """Composite optimisation without client drift; models stay sparse."""

    takes_regulariser: ClassVar[bool] = True

    lr: float = param(positive, "step size of the local steps")
    local_steps: int = param(at_least(1), "local steps a round", default=5)
    server_lr: float = param(positive, "step size of the hub", default=1.0)
    cohort: int | None = param(
        at_least(1).or_none("everyone, as in the paper"),
        "clients asked in a round",
        default=None,
    )

    def init_hub(self, fed: FedView, key: Array, /) -> DecoupledProxHub:
        """A fresh model."""
        return DecoupledProxHub(fed.init_model(key))

    def init_client(self, f: SmoothOracle, key: Array, /) -> DecoupledProxClient:
        """Zero correction: the first round's slopes renew it."""
        zero = f.zeros()
        return DecoupledProxClient(zero, zero, zero, jnp.array(False))

    def round(self, hub: DecoupledProxHub, fed: FedView, key: Array, /) -> Round:
        """Local proximal steps; the mean of the points before their proximal maps."""
        changes = yield ask(self.train, hub.point, to=uniform(key, fed.n, self.cohort))
        start = fed.prox(hub.point, self._elapsed())
        one = self.cohort == 1  # who has nobody to agree with
        change = changes.estimate(fed.weights) if one else changes.average(fed.weights)
        point = jnp.where(changes.cohort.any(), start + self.server_lr * change, hub.point)
        if self.cohort is not None and not one:
            yield ask(self.settle, point, to=changes.cohort)
        return DecoupledProxHub(point), ()

    def train(
        self, client: DecoupledProxClient, point: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[DecoupledProxClient, Array]:
        """K corrected steps; the reply is the change of the point before the proximal map."""
        settled = self.cohort is not None  # by an exchange of its own, not by this message
        correction = client.correction if settled else self._correction(client, point)
        start = f.prox(point, self._elapsed())

        def step(inner: _Inner, key: Array) -> _Inner:
            slope = f.grad(inner.after, key)
            before = inner.before - self.lr * (slope + correction)
            after = f.prox(before, (inner.taken + 1) * self.lr)
            return _Inner(before, after, inner.slopes + slope, inner.taken + 1)

        first = _Inner(start, start, jnp.zeros_like(start), jnp.zeros((), start.dtype))
        last = repeat(step, first, key, self.local_steps)
        slope = last.slopes / self.local_steps
        return (
            DecoupledProxClient(correction, start, slope, jnp.array(True)),
            last.before - start,
        )

    def settle(
        self, client: DecoupledProxClient, point: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[DecoupledProxClient, Nothing]:
        """Renew the correction by the new global point."""
        correction = self._correction(client, point)
        return client._replace(correction=correction, pending=jnp.array(False)), ()

    def model(self, hub: DecoupledProxHub, fed: FedView, /) -> Array:
        """The model after the proximal map."""
        return fed.prox(hub.point, self._elapsed())

    def _elapsed(self) -> float:
        return self.lr * self.server_lr * self.local_steps

    def _correction(self, client: DecoupledProxClient, point: Array) -> Array:
        renewed = (client.start - point) / self._elapsed() - client.slope
        return jnp.where(client.pending, renewed, client.correction)
