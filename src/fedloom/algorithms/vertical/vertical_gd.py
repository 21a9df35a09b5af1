"""Gradient descent over columns: the plain yardstick of vertical learning.

    hub       sends the slope grad l(sum_i A_i x_i)
    party     x_i <- x_i - step (A_i'slope + grad r_i(x_i)),   answers A_i x_i

    step = 1/L,  L = L_l lam_max(A'A) + L_r

Down and up one number a row; the product at the new point serves the next iteration.

Differs from the paper: the penalty is (l2 / 2) |x|^2, to which its constants belong, where the
experiments of Beznosikov et al. write lam |x|^2.
"""

from typing import ClassVar, NamedTuple

from fedloom.algorithms.vertical import scaling
from fedloom.algorithms.vertical.scaling import Constants, Scale
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class DescentHub(NamedTuple):
    """The scores of the rows, sum_i A_i x_i."""

    scores: Array


class DescentParty(NamedTuple):
    """A party's share x_i and the step."""

    share: Array
    scale: Scale


def theory(c: Constants) -> Array:
    """One over the smoothness of the objective."""
    return 1 / (c.loss * c.joint + c.ridge)


@algorithm
class VerticalGD(Algorithm):
    """Gradient descent on all columns at once, each party on its own."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: float | None = scaling.step_param()
    eigenvalue: str = scaling.eigenvalue_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> DescentHub:
        """The scores of zero shares."""
        return DescentHub(fed.loss.zeros())

    def init_client(self, f: PartyOracle, key: Array, /) -> DescentParty:
        """A zero share."""
        return DescentParty(f.zeros(), scaling.given(self.step, f.zeros().dtype))

    def opening(self, hub: DescentHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory."""
        yield from scaling.find_scale(fed, key, theory, step=self.step, eigenvalue=self.eigenvalue)
        return hub, ()

    def round(self, hub: DescentHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The slope of the loss at the scores goes out, products at the new shares come back."""
        products = yield ask(self.move, fed.loss.grad(hub.scores), to=everyone(fed.n))
        return DescentHub(products.sum()), ()

    def move(self, client: DescentParty, slope: Array, f: PartyOracle, key: Array, /) -> tuple:
        """A gradient step; answers with the product at the new share."""
        x = client.share
        x = x - client.scale.step * (f.adjoint(slope) + f.grad_r(x))
        return client._replace(share=x), f.forward(x)

    def model(self, hub: DescentHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows."""
        return hub.scores

    def deployed(self, model: Array, client: DescentParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share
