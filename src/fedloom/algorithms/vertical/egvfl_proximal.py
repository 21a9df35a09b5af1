"""EGVFL with proximal maps: for l1, elastic net and constraints, and losses without a gradient.

Beznosikov et al., Algorithm 8.

    hub       sends y;                                     party i answers A_i x_i
    party     xh_i = prox_{step r_i}(x_i - step A_i'y)
    hub       zh = prox_{step l}(z + step y)               yh = y + step (sum_i A_i x_i - z)
    hub       sends yh;                                    party i answers A_i xh_i
    party     x_i <- prox_{step r_i}(x_i - step A_i'yh)
    hub       z <- prox_{step l}(z + step yh)              y <- y + step (sum_i A_i xh_i - zh)

    step = (1/sqrt 2) min{1, 1/sqrt(Lm)},  Lm = lam_max(A'A)

r_i holds both the problem's l2 and its regulariser. With the beta-trick, beta = 1/sqrt(Lm) makes
the step 1/sqrt(2): nothing else bounds it.

Differs from the paper: its line 9 sends step A_i xh_i, and line 12 multiplies by the step again;
here it is applied once. The paper gives no beta for this method; the one above is chosen here.
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
    """The step of Theorem B.1."""
    return jnp.sqrt(0.5) / jnp.maximum(1, jnp.sqrt(c.joint))


def trick(c: Constants) -> Array:
    """The beta that makes Lm one."""
    return 1 / jnp.sqrt(c.joint)


@algorithm
class EGVFLProximal(Algorithm):
    """Extragradient steps through proximal maps."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True
    takes_regulariser: ClassVar[bool] = True

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
            fed,
            key,
            theory,
            step=self.step,
            beta_trick=self.beta_trick,
            eigenvalue=self.eigenvalue,
            trick=trick,
        )
        return hub._replace(scale=scale), ()

    def round(self, hub: SaddleHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The half-step to (zh, yh), then the step from (z, y) along the operator there."""
        z, y, (step, beta), average = hub
        loss = fed.loss.scaled(beta)
        products = (yield ask(self.look, y, to=everyone(fed.n))).sum()
        z_half = loss.prox(z + step * y, step)
        y_half = y + step * (products - z)
        products = (yield ask(self.move, y_half, to=everyone(fed.n))).sum()
        z = loss.prox(z + step * y_half, step)
        y = y + step * (products - z_half)
        return SaddleHub(z, y, hub.scale, saddle.add(average, z_half)), ()

    def look(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The first half-step; answers with the product at the point before it."""
        x, (step, beta) = client.share, client.scale
        half = f.prox(x - step * beta * f.adjoint(y), step)
        return client._replace(half=half), beta * f.forward(x)

    def move(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The second, with the price of the half-point; answers with the product there."""
        x, half, (step, beta), average = client
        share = f.prox(x - step * beta * f.adjoint(y), step)
        moved = SaddleParty(share, half, client.scale, saddle.add(average, half))
        return moved, beta * f.forward(half)

    def model(self, hub: SaddleHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return saddle.chosen(hub.slack, hub.average) / hub.scale.beta

    def deployed(self, model: Array, client: SaddleParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return saddle.chosen(client.share, client.average)
