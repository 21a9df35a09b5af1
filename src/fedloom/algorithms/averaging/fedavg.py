"""FedAvg: local gradient steps, then the mean of the models.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas. AISTATS 2017, Algorithm 1.

    hub         S of m clients, uniformly without replacement
    client i    w_i = w;  K times:  w_i <- w_i - lr g_i(w_i)
    hub         w <- w + server_lr  sum_S a_i (w_i - w) / sum_S a_i

The weights a_i are those of the problem: all alike, or by the number of rows.

Differs from the paper: changes of the model are averaged rather than models, which is the same for
server_lr = 1 and lets an empty cohort leave the model as it is.
"""

from typing import Any, NamedTuple

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.parameters import param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask

Array = Any


class FedAvgHub(NamedTuple):
    """The global model."""

    model: Array


@algorithm
class FedAvg(Algorithm):
    """Federated averaging."""

    lr: float = param(positive, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: float = param(positive, "step size of the hub", default=1.0)

    def init_hub(self, fed: Any, key: Array, /) -> FedAvgHub:
        """A fresh model."""
        return FedAvgHub(fed.init_model(key))

    def round(self, hub: FedAvgHub, fed: Any, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean of the changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return FedAvgHub(hub.model + self.server_lr * changes.average(fed.weights)), ()

    def train(self, client: tuple[()], model: Array, f: Any, key: Array, /) -> tuple[Any, Array]:
        """K steps of stochastic gradient descent; the reply is the change of the model."""

        def step(w: Array, key: Array) -> Array:
            return w - self.lr * f.grad(w, key)

        return client, repeat(step, model, key, steps_of(self.local_steps, f)) - model
