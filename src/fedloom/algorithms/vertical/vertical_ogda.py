"""The optimistic gradient method over columns: EGVFL's problem at half of its messages.

Popov 1980, in the form of Malitsky and Tam, SIAM J. Optim. 2020, for the saddle point problem

    min_{x, z} max_y  l(z, b) + sum_i r_i(x_i) + y'(sum_i A_i x_i - z)

    hub       sends y;                                     party i answers A_i x_i
    party     g_i = A_i'y + grad r_i(x_i);                 x_i <- x_i - step (2 g_i - old g_i)
    hub       g_z = grad l(z) - y;                         z <- z - step (2 g_z - old g_z)
              g_y = sum_i A_i x_i - z;                     y <- y + step (2 g_y - old g_y)

    step = 1 / (2 L),  L = max{L_r, L_l} + sqrt(1 + Lm),  Lm = lam_max(A'A)

Where EGVFL looks ahead by an exchange, this one guesses what it would have seen from the change
since the last iteration, so that one vector of one number a row goes each way. It converges for
steps below 1/(2L), L the Lipschitz constant of the operator (g_x, g_z, -g_y), of which the L above
is a bound; extragradient steps may be up to twice as long. The old gradients of the first iteration
are those at the start.

Paper            here                     Paper           here
lambda           step                     x_i             OptimisticParty.share
B(x_k)           slopes                   beta            Scale.beta, as in EGVFL

Differs from the paper: in nothing; there are no proximal maps, since l and r_i are smooth.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical import scaling
from fedloom.algorithms.vertical.scaling import Constants, Scale
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class OptimisticHub(NamedTuple):
    """The slack z and price y, their gradients in the iteration before, and the step."""

    slack: Array
    price: Array
    slack_slope: Array
    price_slope: Array
    scale: Scale


class OptimisticParty(NamedTuple):
    """A party's share x_i, its gradient in the iteration before, and the step."""

    share: Array
    slope: Array
    scale: Scale


def theory(c: Constants) -> Array:
    """Half of one over a bound of the operator's Lipschitz constant."""
    return 0.5 / (jnp.maximum(c.ridge, c.loss) + jnp.sqrt(1 + c.joint))


@algorithm
class VerticalOGDA(Algorithm):
    """Optimistic steps of hub and parties: along twice the gradient less the one before."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> OptimisticHub:
        """Zero slack and price."""
        zeros = fed.loss.zeros()
        scale = scaling.given(self.step, zeros.dtype)
        return OptimisticHub(zeros, zeros, zeros, zeros, scale)

    def init_client(self, f: PartyOracle, key: Array, /) -> OptimisticParty:
        """A zero share, where with a zero price the gradient is zero."""
        return OptimisticParty(f.zeros(), f.zeros(), scaling.given(self.step, f.zeros().dtype))

    def opening(self, hub: OptimisticHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory, and the gradient at the start."""
        scale = yield from scaling.find_scale(
            fed, key, theory, step=self.step, beta_trick=self.beta_trick, eigenvalue=self.eigenvalue
        )
        slope = fed.loss.scaled(scale.beta).grad(hub.slack)
        return hub._replace(slack_slope=slope, scale=scale), ()

    def round(self, hub: OptimisticHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The price goes out, products at the shares of before the step come back."""
        z, y, old_z, old_y, (step, beta) = hub
        products = (yield ask(self.move, y, to=everyone(fed.n))).sum()
        g_z = fed.loss.scaled(beta).grad(z) - y
        g_y = products - z
        z = z - step * (2 * g_z - old_z)
        y = y + step * (2 * g_y - old_y)
        return OptimisticHub(z, y, g_z, g_y, hub.scale), ()

    def move(self, client: OptimisticParty, y: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The party's step; answers with the product at the point before it."""
        x, old, (step, beta) = client
        g = beta * f.adjoint(y) + f.grad_r(x)
        moved = OptimisticParty(x - step * (2 * g - old), g, client.scale)
        return moved, beta * f.forward(x)

    def model(self, hub: OptimisticHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return hub.slack / hub.scale.beta

    def deployed(self, model: Array, client: OptimisticParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share
