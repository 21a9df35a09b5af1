"""EGVFL on the dual of the loss: no slack at the hub, only the price.

Beznosikov et al., Algorithm 10, for  min_x max_y  -l*(y, b) + sum_i r_i(x_i) + y'sum_i A_i x_i.

    parties as in EGVFL
    hub       yh = y + step (sum_i A_i x_i - grad l*(y))
              y <- y + step (sum_i A_i xh_i - grad l*(yh))

    step = (1/2) min{1, 1/sqrt(Lm), 1/L_r, 1/L_l*},  Lm = lam_max(A'A)

It needs a loss whose conjugate l* is smooth: the squared one, l*(y) = |y|^2/2 + b'y. There is no
beta-trick: scaling moves both constants the same way.

Differs from the paper: in nothing; the printed sign of the price step is right.
"""

from typing import ClassVar, NamedTuple

from fedloom.algorithms.vertical import saddle, scaling
from fedloom.algorithms.vertical.egvfl import theory as primal_theory
from fedloom.algorithms.vertical.saddle import SaddleParty
from fedloom.algorithms.vertical.scaling import Constants, Scale
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class DualHub(NamedTuple):
    """The price y and the step."""

    price: Array
    scale: Scale


def theory(c: Constants) -> Array:
    """The step of Theorem C.2; the conjugate of the squared loss has the smoothness 1 / L_l."""
    return primal_theory(c._replace(loss=1 / c.loss))


@algorithm
class EGVFLDual(Algorithm):
    """Extragradient steps on model and price."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: float | None = scaling.step_param()
    eigenvalue: str = scaling.eigenvalue_param()
    iterate: str = saddle.iterate_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> DualHub:
        """A zero price."""
        price = fed.loss.zeros()
        return DualHub(price, scaling.given(self.step, price.dtype))

    def init_client(self, f: PartyOracle, key: Array, /) -> SaddleParty:
        """A zero share."""
        return saddle.first_party(f, key, self.step, self.iterate)

    def opening(self, hub: DualHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory."""
        scale = yield from scaling.find_scale(
            fed, key, theory, step=self.step, eigenvalue=self.eigenvalue
        )
        return hub._replace(scale=scale), ()

    def round(self, hub: DualHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The half-step to yh, then the step from y along the operator there."""
        y, step = hub.price, hub.scale.step
        products = (yield ask(self.look, y, to=everyone(fed.n))).sum()
        y_half = y - step * (fed.loss.conjugate_grad(y) - products)
        products = (yield ask(self.move, y_half, to=everyone(fed.n))).sum()
        y = y - step * (fed.loss.conjugate_grad(y_half) - products)
        return DualHub(y, hub.scale), ()

    def look(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The first half-step; answers with the product at the point before it."""
        x, step = client.share, client.scale.step
        half = x - step * (f.adjoint(y) + f.grad_r(x))
        return client._replace(half=half), f.forward(x)

    def move(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The second, at the half-point; answers with the product there."""
        x, half, scale, average = client
        share = x - scale.step * (f.adjoint(y) + f.grad_r(half))
        return SaddleParty(share, half, scale, saddle.add(average, half)), f.forward(half)

    def model(self, hub: DualHub, fed: VerticalFedView, /) -> Array:
        """The scores that the price stands for: the slack that maximises y'z - l(z)."""
        return fed.loss.conjugate_grad(hub.price)

    def deployed(self, model: Array, client: SaddleParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return saddle.chosen(client.share, client.average)
