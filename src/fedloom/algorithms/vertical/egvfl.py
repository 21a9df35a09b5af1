"""EGVFL: the extragradient method for vertical learning as a saddle point problem.

Beznosikov et al., Algorithm 1, for the saddle point problem

    min_{x, z} max_y  l(z, b) + sum_i r_i(x_i) + y'(sum_i A_i x_i - z)

    hub       sends y;                                     party i answers A_i x_i
    party     xh_i = x_i - step (A_i'y + grad r_i(x_i))
    hub       zh = z - step (grad l(z) - y)                yh = y + step (sum_i A_i x_i - z)
    hub       sends yh;                                    party i answers A_i xh_i
    party     x_i <- x_i - step (A_i'yh + grad r_i(xh_i))
    hub       z <- z - step (grad l(zh) - yh)              y <- y + step (sum_i A_i xh_i - zh)

    step = (1/2) min{1, 1/sqrt(Lm), 1/L_r, 1/L_l},  Lm = lam_max(A'A)

Labels never leave the hub, features never leave a party: what travels are two vectors of one number
a row each way. The hub is one of the parties; its own exchange is counted like the others'.

Paper            here                     Paper           here
gamma            step                     x_i             SaddleParty.share
z, y             SaddleHub.slack, price   beta            Scale.beta

Differs from the paper: the text has no listing; this one is rebuilt from the proof of its Theorem
2.2.
"""

from typing import ClassVar

import jax.numpy as jnp

from fedloom.algorithms.vertical import saddle, scaling
from fedloom.algorithms.vertical.saddle import SaddleHub, SaddleParty
from fedloom.algorithms.vertical.scaling import Constants
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


def theory(c: Constants) -> Array:
    """The step of Theorem 2.2."""
    return 0.5 / jnp.maximum(jnp.maximum(1, jnp.sqrt(c.joint)), jnp.maximum(c.ridge, c.loss))


@algorithm
class EGVFL(Algorithm):
    """Extragradient steps of hub and parties on a saddle point problem."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()
    iterate: str = saddle.iterate_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SaddleHub:
        """Zero slack and price."""
        return saddle.first_hub(fed, self.step, self.iterate)

    def init_client(self, f: PartyOracle, key: Array, /) -> SaddleParty:
        """A zero share."""
        return saddle.first_party(f, key, self.step, self.iterate)

    def opening(self, hub: SaddleHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory."""
        scale = yield from scaling.find_scale(
            fed, key, theory, step=self.step, beta_trick=self.beta_trick, eigenvalue=self.eigenvalue
        )
        return hub._replace(scale=scale), ()

    def round(self, hub: SaddleHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The half-step to (zh, yh), then the step from (z, y) along the operator there."""
        z, y, (step, beta), average = hub
        loss = fed.loss.scaled(beta)
        products = (yield ask(self.look, y, to=everyone(fed.n))).sum()
        z_half = z - step * (loss.grad(z) - y)
        y_half = y + step * (products - z)
        products = (yield ask(self.move, y_half, to=everyone(fed.n))).sum()
        z = z - step * (loss.grad(z_half) - y_half)
        y = y + step * (products - z_half)
        return SaddleHub(z, y, hub.scale, saddle.add(average, z_half)), ()

    def look(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The first half-step; answers with the product at the point before it."""
        x, (step, beta) = client.share, client.scale
        half = x - step * (beta * f.adjoint(y) + f.grad_r(x))
        return client._replace(half=half), beta * f.forward(x)

    def move(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The second, with everything taken at the half-point; answers with the product there."""
        x, half, (step, beta), average = client
        share = x - step * (beta * f.adjoint(y) + f.grad_r(half))
        moved = SaddleParty(share, half, client.scale, saddle.add(average, half))
        return moved, beta * f.forward(half)

    def model(self, hub: SaddleHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return saddle.chosen(hub.slack, hub.average) / hub.scale.beta

    def deployed(self, model: Array, client: SaddleParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return saddle.chosen(client.share, client.average)
