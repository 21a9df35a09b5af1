"""EGVFL on the augmented Lagrangian: a quadratic penalty on the residual beside the price.

Beznosikov et al., Algorithm 9: the saddle of EGVFL plus (rho/2) |sum_i A_i x_i - z|^2.

    with v = sum_i A_i x_i - z, and vh the same at the half-point:
    party     xh_i = x_i - step (A_i'(y + rho v) + grad r_i(x_i))
    hub       zh = z - step (grad l(z) - y - rho v)        yh = y + step v
    party     x_i <- x_i - step (A_i'(yh + rho vh) + grad r_i(xh_i))
    hub       z <- z - step (grad l(zh) - yh - rho vh)     y <- y + step vh

    step = (1/4) min{1, 1/rho, 1/sqrt(Lm), 1/sqrt(rho Lm), 1/(rho Lm), 1/L_r, 1/L_l}

Differs from the paper: its second half-step takes the penalty at the old point, while its proof,
and extragradient, take the whole operator at the half-point. And where it sends y and v, the hub
here sends y + rho v, which is all that a party uses: half of the bytes.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical import saddle, scaling
from fedloom.algorithms.vertical.saddle import Average, SaddleParty
from fedloom.algorithms.vertical.scaling import Constants, Scale
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import at_least_zero, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class AugmentedHub(NamedTuple):
    """The slack z, the price y, the sum of the parties' products, and the step."""

    slack: Array
    price: Array
    products: Array
    scale: Scale
    average: Average | tuple


@algorithm
class EGVFLAugmented(Algorithm):
    """Extragradient steps on the augmented Lagrangian."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    rho: float = param(at_least_zero, "weight of the penalty on the residual", default=1.0)
    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()
    iterate: str = saddle.iterate_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> AugmentedHub:
        """Zero slack and price, and the products of zero shares."""
        z, y, scale, average = saddle.first_hub(fed, self.step, self.iterate)
        return AugmentedHub(z, y, z, scale, average)

    def init_client(self, f: PartyOracle, key: Array, /) -> SaddleParty:
        """A zero share."""
        return saddle.first_party(f, key, self.step, self.iterate)

    def opening(self, hub: AugmentedHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory."""
        scale = yield from scaling.find_scale(
            fed,
            key,
            self._theory,
            step=self.step,
            beta_trick=self.beta_trick,
            eigenvalue=self.eigenvalue,
        )
        return hub._replace(scale=scale), ()

    def round(self, hub: AugmentedHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The half-step to (zh, yh), then the step from (z, y) along the operator there."""
        z, y, products, (step, beta), average = hub
        loss = fed.loss.scaled(beta)
        pull, v = y + self.rho * (products - z), products - z
        products = (yield ask(self.look, pull, to=everyone(fed.n))).sum()
        z_half = z - step * (loss.grad(z) - pull)
        y_half = y + step * v
        pull, v = y_half + self.rho * (products - z_half), products - z_half
        products = (yield ask(self.move, pull, to=everyone(fed.n))).sum()
        z = z - step * (loss.grad(z_half) - pull)
        y = y + step * v
        return AugmentedHub(z, y, products, hub.scale, saddle.add(average, z_half)), ()

    def look(self, client: SaddleParty, pull: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The first half-step; answers with the product at the half-point."""
        x, (step, beta) = client.share, client.scale
        half = x - step * (beta * f.adjoint(pull) + f.grad_r(x))
        return client._replace(half=half), beta * f.forward(half)

    def move(self, client: SaddleParty, pull: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The second, with everything at the half-point; answers with the product at the end."""
        x, half, (step, beta), average = client
        share = x - step * (beta * f.adjoint(pull) + f.grad_r(half))
        moved = SaddleParty(share, half, client.scale, saddle.add(average, half))
        return moved, beta * f.forward(share)

    def model(self, hub: AugmentedHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return saddle.chosen(hub.slack, hub.average) / hub.scale.beta

    def deployed(self, model: Array, client: SaddleParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return saddle.chosen(client.share, client.average)

    def _theory(self, c: Constants) -> Array:
        """The step of Theorem C.1."""
        penalty = jnp.maximum(
            self.rho, jnp.maximum(jnp.sqrt(self.rho * c.joint), self.rho * c.joint)
        )
        others = jnp.maximum(jnp.maximum(1, jnp.sqrt(c.joint)), jnp.maximum(c.ridge, c.loss))
        return 0.25 / jnp.maximum(penalty, others)
