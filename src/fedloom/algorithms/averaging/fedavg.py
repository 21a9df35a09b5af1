"""FedAvg: local gradient steps, then the mean of the models.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas. AISTATS 2017, Algorithm 1.

    hub         S of m clients, uniformly without replacement
    client i    w_i = w;  K times:  w_i <- w_i - lr g_i(w_i)
    hub         w <- w + server_lr (n/m) sum_S a_i (w_i - w)

The weights a_i are those of the problem: all equal, or by the number of rows.

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps the limit is the solution of the stated problem. If weights are very unequal, so are the steps
of a small cohort, up to (n/m) max_i a_i times a full one, which calls for a smaller server_lr;
FedProx with mu = 0 and sampling = "by_weight" draws large clients more often instead. If replies
are lost, m is the number that arrived. With local_steps in epochs, clients of unequal sizes take
unequal numbers of steps, and the limit is that of weights a_i tau_i, whoever takes part.

Differs from the paper: changes of the model are averaged rather than models, so that a round
without replies leaves the model as it is. The paper divides by sum_S a_i instead of m/n. With equal
weights that is the same. Otherwise the quotient is biased; with a cohort of one the weight cancels
altogether, and the limit would be that of clients that count equally.
"""

from typing import NamedTuple

from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class FedAvgHub(NamedTuple):
    """The global model."""

    model: Array


@algorithm
class FedAvg(Algorithm):
    """Federated averaging: local gradient steps, then the mean of the models."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedAvgHub:
        """A fresh model."""
        return FedAvgHub(fed.init_model(key))

    def round(self, hub: FedAvgHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean of the changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return FedAvgHub(hub.model + self.server_lr * changes.estimate(fed.weights)), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K steps of stochastic gradient descent; the reply is the change of the model."""
        steps = steps_of(self.local_steps, f)
        w = descend(f.grad, model, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        return client, w - model
