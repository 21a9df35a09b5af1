"""FedMid: federated mirror descent, in its Euclidean form.

Yuan, Zaheer, Reddi. Federated composite optimization. ICML 2021, Algorithm 1.

    client i    w_i = w;  K times:  w_i <- prox_{lr g}(w_i - lr g_i(w_i))
    hub         w <- prox_{server_lr lr K g}(w + server_lr (n/m) sum_S a_i (w_i - w))

The mean of sparse models is dense, and unlike clients pull it away from the optimum: this is the
baseline that the composite family improves on. As both proximal maps act, g counts twice: with
short steps the limit is that of f + 2 g, and of f + g with server_prox = false.

With a cohort: averaged over the draws of S, a step is that of full participation, and so is the
limit. A round without replies leaves the model as it is, without a proximal map.

Differs from the paper: none for the default. The released code scales the hub's proximal map by the
client steps that have elapsed, as here; other implementations leave it out (server_prox = false).
"""

from typing import ClassVar, NamedTuple

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, flag, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class FedMidHub(NamedTuple):
    """The global model."""

    model: Array


@algorithm
class FedMid(Algorithm):
    """Averaging of clients that take proximal gradient steps."""

    takes_regulariser: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int = param(at_least(1), "local steps a round", default=5)
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    cohort: int | None = cohort_param()
    server_prox: bool = param(flag, "whether the hub applies a proximal map too", default=True)

    def init_hub(self, fed: FedView, key: Array, /) -> FedMidHub:
        """A fresh model."""
        return FedMidHub(fed.init_model(key))

    def round(self, hub: FedMidHub, fed: FedView, key: Array, /) -> Round:
        """Proximal steps at a cohort, then the mean, then the hub's proximal map."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        model = hub.model + self.server_lr * changes.estimate(fed.weights)
        if self.server_prox:
            elapsed = changes.cohort.any() * self.server_lr * self.lr * self.local_steps
            model = fed.prox(model, elapsed)
        return FedMidHub(model), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K proximal gradient steps; the reply is the change of the model."""

        def step(w: Array, key: Array) -> Array:
            return f.prox(w - self.lr * f.grad(w, key), self.lr)

        return client, repeat(step, model, key, self.local_steps) - model
