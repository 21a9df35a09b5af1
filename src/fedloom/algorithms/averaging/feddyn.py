"""FedDyn: local problems that are bent until their solutions agree.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama. Federated learning based on dynamic
regularization. ICLR 2021, Algorithm 1.

    client i    w_i = argmin_v  f_i(v) - <g_i, v> + (alpha / 2) |v - w|^2,  by K steps from v = w:
                v <- v - lr (grad f_i(v) - g_i + alpha (v - w))
                g_i <- g_i - alpha (w_i - w)
    hub         h <- h - alpha sum_S a_i (w_i - w)
                w <- sum_S a_i w_i / sum_S a_i - h / alpha

g_i is the gradient of f_i at w_i, where the local problem is solved, and h the mean of all g_i.
Only models travel: half of what SCAFFOLD sends.

Paper            here                     Paper           here
theta            model                    theta_k         w_i
grad L_k(..)     FedDynClient.gradient    h               FedDynHub.gradient

With a cohort: at a point where nothing moves, every w_i is w, every g_i is the gradient of f_i at
w, and h is zero. So with full gradients the limit is exact, whoever takes part, and however few
steps the local problem gets. With a small alpha the first models of the hub jump, because h is
divided by alpha.

Differs from the paper: the local problem is solved by a number of steps. Where the problem weighs
clients, h and the mean carry its weights; with equal ones, a_i = 1/n, this is the paper's listing.
The authors' program divides a client's alpha by its weight instead.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class FedDynHub(NamedTuple):
    """The global model, and the mean of all clients' gradients."""

    model: Array
    gradient: Array


class FedDynClient(NamedTuple):
    """The client's gradient at its last model."""

    gradient: Array


@algorithm
class FedDyn(Algorithm):
    """Averaging with a regulariser at each client that moves with the rounds."""

    lr: StepSize = param(step_size, "step size of the local steps")
    alpha: float = param(
        positive, "weight of the proximal term that keeps clients near the hub's model", default=0.1
    )
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedDynHub:
        """A fresh model, and a gradient of zero."""
        model = fed.init_model(key)
        return FedDynHub(model, jnp.zeros_like(model))

    def init_client(self, f: SmoothOracle, key: Array, /) -> FedDynClient:
        """A gradient of zero, so that the mean over clients is the hub's."""
        return FedDynClient(f.zeros())

    def round(self, hub: FedDynHub, fed: FedView, key: Array, /) -> Round:
        """Bent local problems at a cohort; then the mean of models, less that of gradients."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        gradient = hub.gradient - self.alpha * changes.sum(fed.weights)
        model = hub.model + changes.average(fed.weights) - gradient / self.alpha
        return FedDynHub(jnp.where(changes.cohort.any(), model, hub.model), gradient), ()

    def train(
        self, client: FedDynClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[FedDynClient, Array]:
        """K steps on the bent problem; the reply is the change of the model."""

        def slope(v: Array, key: Array) -> Array:
            return f.grad(v, key) - client.gradient + self.alpha * (v - model)

        steps = steps_of(self.local_steps, f)
        change = descend(slope, model, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        change = change - model
        return FedDynClient(client.gradient - self.alpha * change), change
