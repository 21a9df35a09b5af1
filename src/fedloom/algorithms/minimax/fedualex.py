"""FeDualEx: federated dual extrapolation for composite saddle problems, in its Euclidean form.

Bai, Bullins. Local composite saddle point optimization. ICLR 2024, Algorithm 1.

    elapsed(r, k) = lr (server_lr r K + k);   P_e(w) = (prox_{e g}(w_x), w_y)
    client i    w_i = w;  for k = 0 .. K-1, with steps (lr, dual_lr) on (x, y):
                    z = P_elapsed(r, k)(w_i)
                    h = P_elapsed(r, k+1)(w_i - step G_i(z)),   G_i = (gx_i, -gy_i)
                    w_i <- w_i - step G_i(h), on another batch
    hub         w <- w + server_lr (n/m) sum_S a_i (w_i - w)
                the model is the x of P_elapsed(r+1, 0)(w)

What is averaged is the dual point w, a sum of gradients that no proximal map has touched, so that
the model keeps its zeros as in FedDualAvg; the extra gradient at h keeps x and y from turning
around the saddle. A local step costs two gradients, and a round sends what one of Local SGDA does
and r.

Paper            here                     Paper           here
omega = sbar - s FeDualExHub.point        eta^c, eta^s    lr, server_lr
l, psi_1         |.|^2 / 2, g             psi_2           none: a saddle problem has g in x only

The paper's analysis is for clients that are alike. Unlike ones drift apart within a round, with one
local step too, since its extra gradient is the client's own: the limit is off by an amount that
grows with lr K.

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem. A round without replies does not count in r.

Differs from the paper: dual_lr may differ from lr. The model is the last one; the paper's mean of
all h would need the mean of the clients' w_i after every local step, which nobody has.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.algorithms.minimax.point import PrimalDual, first_point, minus, plus
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat
from fedloom.oracles import SaddleFedView, SaddleOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Nothing


class FeDualExHub(NamedTuple):
    """The dual point and the number of rounds, which also make up the message."""

    point: PrimalDual
    rounds: Array


@algorithm
class FeDualEx(Algorithm):
    """Averaging of dual points, before any proximal map, after local extragradient steps."""

    takes: ClassVar[str] = "saddle"
    takes_regulariser: ClassVar[bool] = True

    lr: float = param(positive, "step size of the local steps in x")
    dual_lr: float = param(positive, "step size of the local steps in y")
    local_steps: int = param(at_least(1), "local steps a round, of two gradients each", default=5)
    server_lr: float = param(positive, "step size of the hub", default=1.0)
    cohort: int | None = cohort_param()

    def init_hub(self, fed: SaddleFedView, key: Array, /) -> FeDualExHub:
        """A fresh model and dual as the first dual point."""
        point = first_point(fed, key)
        return FeDualExHub(point, jnp.zeros((), point.x.dtype))

    def round(self, hub: FeDualExHub, fed: SaddleFedView, key: Array, /) -> Round:
        """Local extragradient steps at a cohort, then the mean of the dual points."""
        changes = yield ask(self.train, hub, to=uniform(key, fed.n, self.cohort))
        point = plus(hub.point, changes.estimate(fed.weights), self.server_lr)
        return FeDualExHub(point, hub.rounds + changes.cohort.any()), ()

    def train(
        self, client: Nothing, hub: FeDualExHub, f: SaddleOracle, key: Array, /
    ) -> tuple[Nothing, PrimalDual]:
        """K extragradient steps; the reply is the change of the dual point."""

        def move(w: PrimalDual, x: Array, y: Array, key: Array) -> PrimalDual:
            gx, gy = f.grads(x, y, key)
            return PrimalDual(w.x - self.lr * gx, w.y + self.dual_lr * gy)

        def step(state: tuple[PrimalDual, Array], key: Array) -> tuple[PrimalDual, Array]:
            w, elapsed = state
            look, work = jax.random.split(key)
            half = move(w, f.prox(w.x, elapsed), w.y, look)
            elapsed = elapsed + self.lr
            return move(w, f.prox(half.x, elapsed), half.y, work), elapsed

        first = (hub.point, self._elapsed(hub))
        return client, minus(repeat(step, first, key, self.local_steps)[0], hub.point)

    def model(self, hub: FeDualExHub, fed: SaddleFedView, /) -> Array:
        """The primal point of the dual one; the y of it is of use in training only."""
        return fed.prox(hub.point.x, self._elapsed(hub))

    def _elapsed(self, hub: FeDualExHub) -> Array:
        return self.server_lr * self.lr * self.local_steps * hub.rounds
