"""FedDualAvg: federated dual averaging, in its Euclidean form.

Yuan, Zaheer, Reddi. Federated composite optimization. ICML 2021, Algorithm 2.

    elapsed(r, k) = server_lr lr r K + lr k
    client i    z_i = z;  for k = 0 .. K-1:
                    w = prox_{elapsed(r, k) g}(z_i);   z_i <- z_i - lr g_i(w)
    hub         z <- z + server_lr (n/m) sum_S a_i (z_i - z)
                the model is prox_{elapsed(r+1, 0) g}(z)

What is averaged is the dual, the sum of gradients, so that the model stays sparse; the weight of
the regulariser grows with the steps that have elapsed.

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem. A round without replies does not count in r.

Differs from the paper: nothing. (An often-copied implementation counts r and k from 1, which makes
every threshold K + 1 steps too large.)
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Nothing


class FedDualAvgHub(NamedTuple):
    """The dual point and the number of rounds, which also make up the message."""

    dual: Array
    rounds: Array


@algorithm
class FedDualAvg(Algorithm):
    """Averaging of dual points, before any proximal map, instead of sparse models."""

    takes_regulariser: ClassVar[bool] = True

    lr: float = param(positive, "step size of the local steps")
    local_steps: int = param(at_least(1), "local steps a round", default=5)
    server_lr: float = param(positive, "step size of the hub", default=1.0)
    cohort: int | None = cohort_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedDualAvgHub:
        """A fresh model as the first dual."""
        dual = fed.init_model(key)
        return FedDualAvgHub(dual, jnp.zeros((), dual.dtype))

    def round(self, hub: FedDualAvgHub, fed: FedView, key: Array, /) -> Round:
        """Local dual steps at a cohort, then the mean of the duals."""
        changes = yield ask(self.train, hub, to=uniform(key, fed.n, self.cohort))
        dual = hub.dual + self.server_lr * changes.estimate(fed.weights)
        return FedDualAvgHub(dual, hub.rounds + changes.cohort.any()), ()

    def train(
        self, client: Nothing, hub: FedDualAvgHub, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K dual steps; the reply is the change of the dual."""

        def step(state: tuple[Array, Array], key: Array) -> tuple[Array, Array]:
            dual, elapsed = state
            gradient = f.grad(f.prox(dual, elapsed), key)
            return dual - self.lr * gradient, elapsed + self.lr

        dual, _ = repeat(step, (hub.dual, self._elapsed(hub)), key, self.local_steps)
        return client, dual - hub.dual

    def model(self, hub: FedDualAvgHub, fed: FedView, /) -> Array:
        """The primal point of the dual."""
        return fed.prox(hub.dual, self._elapsed(hub))

    def _elapsed(self, hub: FedDualAvgHub) -> Array:
        return self.server_lr * self.lr * self.local_steps * hub.rounds
