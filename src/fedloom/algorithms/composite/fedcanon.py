"""FedCanon: composite optimisation with control variables and one proximal map a round, at the hub.

Zhou, Zhong, Shi, Wen, Yu. FedCanon: non-convex composite federated learning with efficient proximal
operation on heterogeneous data. arXiv 2504.11903, 2025.

    et = server_lr lr K;  the hub sends z and s, at first 0
    client i, K local steps from u = z:   u <- u - lr (g_i(u) + c_i),   c_i = s - v_i
    then                                  v_i+ = the mean of the K gradients g_i(u)
    hub                                   v <- v + sum_S a_i (v_i+ - v_i)
                                          z+ = prox_{et g}(z - et v);   s = (z - z+) / et

Clients never apply the proximal map, which may be costly, as that of a nuclear norm is; the control
variables cancel what unlike clients would drift. At the optimum s = 0 and v_i = g_i(z), so that no
client moves: with full gradients it is an exact fixed point for any K and any g. A round sends two
vectors to a client and one back, where SCAFFOLD sends two each way.

Paper            here                     Paper           here
z                FedCanonHub.model        alpha, K        lr, local_steps
beta             et                       c_i             s - v_i; FedCanonClient.slope is v_i

With a cohort: absent clients keep their v_i, and v stays the mean of all of them. With full
gradients the limit is exact, whoever takes part; the smaller the cohort, the shorter the steps must
be, since most of v is old. A round without replies changes nothing.

Differs from the paper: its listing was not at hand, only what it says of itself, and this method
keeps that. The step s is of the model as the proximal map left it; with the mean gradient v in its
place clients would still move along v at the optimum, and the limit would be off by an amount of
lr K. For g = 0 the two are the same. Partial participation and weights of clients were chosen here.
With another optimiser than plain steps, v_i is still the mean of the gradients on the way.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend_with_mean
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class FedCanonHub(NamedTuple):
    """The model, the step by which it came there, and the mean of the clients' gradients."""

    model: Array  # z
    step: Array  # s
    slope: Array  # v


class FedCanonMessage(NamedTuple):
    """Where a client begins, and how the model last moved."""

    model: Array
    step: Array


class FedCanonClient(NamedTuple):
    """The mean of the gradients of the client's last round."""

    slope: Array  # v_i


@algorithm
class FedCanon(Algorithm):
    """Composite optimisation without client drift, with one proximal map a round."""

    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int = param(at_least(1), "local steps a round", default=5)
    server_lr: StepSize = param(
        step_size, "step size of the hub, as a multiple of all local steps together", default=1.0
    )
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedCanonHub:
        """A fresh model that has not moved."""
        model = fed.init_model(key)
        return FedCanonHub(model, jnp.zeros_like(model), jnp.zeros_like(model))

    def init_client(self, f: SmoothOracle, key: Array, /) -> FedCanonClient:
        """Zero, so that the mean over clients is the hub's."""
        return FedCanonClient(f.zeros())

    def round(self, hub: FedCanonHub, fed: FedView, key: Array, /) -> Round:
        """Corrected local steps at a cohort; then a proximal step along the mean gradient."""
        message = FedCanonMessage(hub.model, hub.step)
        changes = yield ask(self.train, message, to=uniform(key, fed.n, self.cohort))
        slope = hub.slope + changes.sum(fed.weights)
        elapsed = self.server_lr * self.lr * self.local_steps
        model = fed.prox(hub.model - elapsed * slope, elapsed)
        heard = changes.cohort.any()
        step = jnp.where(heard, (hub.model - model) / elapsed, hub.step)
        return FedCanonHub(jnp.where(heard, model, hub.model), step, slope), ()

    def train(
        self, client: FedCanonClient, message: FedCanonMessage, f: SmoothOracle, key: Array, /
    ) -> tuple[FedCanonClient, Array]:
        """K corrected steps; the reply is the change of the client's mean gradient."""
        correction = message.step - client.slope  # c_i

        def gradient(u: Array, key: Array) -> Array:
            return f.grad(u, key) + correction

        _, mean = descend_with_mean(
            gradient, message.model, key, lr=self.lr, steps=self.local_steps,
            optimiser=self.optimiser,
        )  # fmt: skip
        slope = mean - correction
        return FedCanonClient(slope), slope - client.slope
