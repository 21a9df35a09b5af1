"""Accelerated gradient descent over columns, with constant momentum.

Nesterov 2003.

hub       sends the slope grad l(sum_i A_i v_i)
party     xn_i = v_i - step (A_i'slope + grad r_i(v_i))
          v_i <- xn_i + momentum (xn_i - x_i);  x_i <- xn_i;   answers A_i v_i

step = 1/L,  momentum = (sqrt L - sqrt mu) / (sqrt L + sqrt mu),  L = L_l lam_max(A'A) + L_r,
mu = the problem's l2

Differs from the paper: the penalty is (l2 / 2) |x|^2, to which its constants belong, where the
experiments of Beznosikov et al. write lam |x|^2.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical import scaling
from fedloom.algorithms.vertical.scaling import Scale
from fedloom.algorithms.vertical.vertical_gd import theory
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, fraction, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array

_momentum: Rule = fraction.or_none("by theory, from the step and the problem's l2")


class MomentumHub(NamedTuple):
    """The scores sum_i A_i v_i at the extrapolated point."""

    scores: Array


class MomentumParty(NamedTuple):
    """A party's share x_i, the extrapolated share v_i, and the step."""

    share: Array
    ahead: Array
    scale: Scale


@algorithm
class VerticalAGD(Algorithm):
    """Accelerated gradient descent on all columns at once, with constant momentum."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: float | None = scaling.step_param()
    momentum: float | None = param(_momentum, "how far a step goes on", default=None)
    eigenvalue: str = scaling.eigenvalue_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> MomentumHub:
        """The scores of zero shares."""
        return MomentumHub(fed.loss.zeros())

    def init_client(self, f: PartyOracle, key: Array, /) -> MomentumParty:
        """A zero share."""
        return MomentumParty(f.zeros(), f.zeros(), scaling.given(self.step, f.zeros().dtype))

    def opening(self, hub: MomentumHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory."""
        yield from scaling.find_scale(fed, key, theory, step=self.step, eigenvalue=self.eigenvalue)
        return hub, ()

    def round(self, hub: MomentumHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The slope of the loss goes out, products at the extrapolated shares come back."""
        products = yield ask(self.move, fed.loss.grad(hub.scores), to=everyone(fed.n))
        return MomentumHub(products.sum()), ()

    def move(self, client: MomentumParty, slope: Array, f: PartyOracle, key: Array, /) -> tuple:
        """A gradient step from the extrapolated share v_i, and the next extrapolation."""
        x, v, (step, _) = client
        ratio = jnp.sqrt(step * f.problem.l2)  # sqrt(mu / L)
        momentum = (1 - ratio) / (1 + ratio) if self.momentum is None else self.momentum
        share = v - step * (f.adjoint(slope) + f.grad_r(v))
        ahead = share + momentum * (share - x)
        return MomentumParty(share, ahead, client.scale), f.forward(ahead)

    def model(self, hub: MomentumHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows."""
        return hub.scores

    def deployed(self, model: Array, client: MomentumParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share
