"""EGVFL for nonlinear models: every party passes its features through a network of its own.

Beznosikov et al., Algorithm 7. A_i x_i becomes g_i(A_i, w_i) x_i, with the network's arrays w_i:

    as in EGVFL, and in both half-steps   w_i <- w_i - step grad_w y'g_i(A_i, w_i) x_i

The problem is no longer convex-concave: there is no guarantee and no step by theory. Without a
network in the problem this is EGVFL itself.

Differs from the paper: head x_i and arrays w_i are one vector here, so both steps are one step with
the gradient of y'g_i(A_i, w_i) x_i, by a Jacobian-transpose product.
"""

from typing import ClassVar

from fedloom.algorithms.vertical import saddle
from fedloom.algorithms.vertical.saddle import SaddleHub, SaddleParty
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class EGVFLNonlinear(Algorithm):
    """Extragradient steps with a network at each party."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: StepSize = param(step_size, "step size of hub and parties")
    iterate: str = saddle.iterate_param()

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SaddleHub:
        """Zero slack and price."""
        return saddle.first_hub(fed, self.step, self.iterate)

    def init_client(self, f: PartyOracle, key: Array, /) -> SaddleParty:
        """A zero share, behind a fresh network."""
        return saddle.first_party(f, key, self.step, self.iterate)

    def round(self, hub: SaddleHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The half-step to (zh, yh), then the step from (z, y) along the operator there."""
        z, y, scale, average = hub
        loss, step = fed.loss, self.step
        outputs = (yield ask(self.look, y, to=everyone(fed.n))).sum()
        z_half = z - step * (loss.grad(z) - y)
        y_half = y + step * (outputs - z)
        outputs = (yield ask(self.move, y_half, to=everyone(fed.n))).sum()
        z = z - step * (loss.grad(z_half) - y_half)
        y = y + step * (outputs - z_half)
        return SaddleHub(z, y, scale, saddle.add(average, z_half)), ()

    def look(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The first half-step; answers with the outputs at the point before it."""
        x = client.share
        half = x - self.step * (f.pull(x, y) + f.grad_r(x))
        return client._replace(half=half), f.forward(x)

    def move(self, client: SaddleParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The second, at the half-point; answers with the outputs there."""
        x, half, scale, average = client
        share = x - self.step * (f.pull(half, y) + f.grad_r(half))
        return SaddleParty(share, half, scale, saddle.add(average, half)), f.forward(half)

    def model(self, hub: SaddleHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return saddle.chosen(hub.slack, hub.average) / hub.scale.beta

    def deployed(self, model: Array, client: SaddleParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return saddle.chosen(client.share, client.average)
