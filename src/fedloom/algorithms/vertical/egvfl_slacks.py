"""EGVFL with a slack for each party: the step no longer depends on lam_max(A'A) of all columns.

Beznosikov et al., Algorithm 6, for  l(sum_i z_i, b) + sum_i r_i(x_i) + sum_i y_i'(A_i x_i - z_i).

    party     xh_i = x_i - step (A_i'y_i + grad r_i(x_i))      zh_i = z_i - step (g - y_i)
              yh_i = y_i + step (A_i x_i - z_i)                g  = grad l(sum_j z_j) from the hub
    party     x_i <- x_i - step (A_i'yh_i + grad r_i(xh_i))    z_i <- z_i - step (gh - yh_i)
              y_i <- y_i + step (A_i xh_i - zh_i)              gh = grad l(sum_j zh_j)

    step = (1/2) min{1, 1/sqrt(max_i lam_max(A_i'A_i)), 1/L_r, 1/(n L_l)}

Differs from the paper: there the hub keeps all z_i and y_i, and party i sends A_i x_i for y_i. Here
each party keeps its own and sends z_i for grad l: the same numbers, the same bytes, and not even
its products leave a party. The beta-trick takes beta = (n L_l)^(1/3) / (max_i lam_max)^(1/6).
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical import saddle, scaling
from fedloom.algorithms.vertical.saddle import Average
from fedloom.algorithms.vertical.scaling import Constants, Scale
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class SlacksHub(NamedTuple):
    """The sum of the parties' slacks, and the step."""

    total: Array
    scale: Scale


class SlacksPoint(NamedTuple):
    """A party's share x_i, slack z_i and price y_i."""

    share: Array
    slack: Array
    price: Array


class SlacksParty(NamedTuple):
    """A party's point, its half-point, and the step."""

    now: SlacksPoint
    half: SlacksPoint
    scale: Scale
    average: Average | tuple


def theory(c: Constants) -> Array:
    """The step of Theorem 4.1."""
    limit = jnp.maximum(jnp.sqrt(c.largest), jnp.maximum(c.ridge, c.n * c.loss))
    return 0.5 / jnp.maximum(1, limit)


def trick(c: Constants) -> Array:
    """The beta that makes the smoothness of both halves equal."""
    return jnp.cbrt(c.n * c.loss) / c.largest ** (1 / 6)


@algorithm
class EGVFLSlacks(Algorithm):
    """Extragradient steps with a slack and a price at each party."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    iterate: str = saddle.iterate_param()

    gauge = staticmethod(scaling.gauge)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SlacksHub:
        """Zero slacks."""
        total = fed.loss.zeros()
        return SlacksHub(total, scaling.given(self.step, total.dtype))

    def init_client(self, f: PartyOracle, key: Array, /) -> SlacksParty:
        """A zero share, slack and price."""
        share, _, scale, average = saddle.first_party(f, key, self.step, self.iterate)
        slack = 0 * f.forward(share)
        point = SlacksPoint(share, slack, slack)
        return SlacksParty(point, point, scale, average)

    def opening(self, hub: SlacksHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory; lam_max of all columns is not needed."""
        scale = yield from scaling.find_scale(
            fed, key, theory, step=self.step, beta_trick=self.beta_trick, eigenvalue="bound",
            trick=trick,
        )  # fmt: skip
        return hub._replace(scale=scale), ()

    def round(self, hub: SlacksHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The gradient of the loss goes out, slacks come back; twice."""
        loss = fed.loss.scaled(hub.scale.beta)
        slacks = yield ask(self.look, loss.grad(hub.total), to=everyone(fed.n))
        slacks = yield ask(self.move, loss.grad(slacks.sum()), to=everyone(fed.n))
        return SlacksHub(slacks.sum(), hub.scale), ()

    def look(self, client: SlacksParty, slope: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The first half-step; answers with the slack after it."""
        half = self._step(client, client.now, slope, f)
        return client._replace(half=half), half.slack

    def move(self, client: SlacksParty, slope: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The second, with everything taken at the half-point."""
        now, half = self._step(client, client.half, slope, f), client.half
        average = saddle.add(client.average, half.share)
        return SlacksParty(now, half, client.scale, average), now.slack

    def _step(
        self, client: SlacksParty, at: SlacksPoint, slope: Array, f: PartyOracle
    ) -> SlacksPoint:
        """From the party's point, along the operator at another."""
        (step, beta), (share, slack, price) = client.scale, client.now
        return SlacksPoint(
            share - step * (beta * f.adjoint(at.price) + f.grad_r(at.share)),
            slack - step * (slope - at.price),
            price + step * (beta * f.forward(at.share) - at.slack),
        )

    def model(self, hub: SlacksHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the sum of the slacks."""
        return hub.total / hub.scale.beta

    def deployed(self, model: Array, client: SlacksParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return saddle.chosen(client.now.share, client.average)
