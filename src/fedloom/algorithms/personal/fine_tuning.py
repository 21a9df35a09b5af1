"""FedAvg with local fine-tuning: each client deploys the common model after steps of its own.

The baseline of most papers on personal models; measured as such by Yu, Bagdasaryan, Shmatikov
(Salvaging federated learning by local adaptation, 2020).

    training    as FedAvg:  w <- w + server_lr (n/m) sum_S a_i (w_i - w)
    deployed    x = w;  personal_steps times:  x <- x - personal_lr f_i'(x)

Fine-tuning begins anew at the common model wherever a client's model is asked for, that is at every
evaluation and when models are taken away: metrics are those of the fine-tuned models, training
never sees them, and a client that has never taken part has one as well. With one step this is the
deployed model of Per-FedAvg, whose training prepares for it.

With a cohort: as in FedAvg, averaged over the draws of S, a step is that of full participation, so
with short steps w converges to the same point as with everyone.

Differs from the papers: a client's own steps are on all of its training rows, not on batches of
them, so that a model that is asked for twice is the same one. An evaluation costs personal_steps
full gradients a client.
"""

from typing import NamedTuple

from fedloom import draws
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class FineTuningHub(NamedTuple):
    """The common model, from which clients fine-tune."""

    model: Array


@algorithm
class FineTuning(Algorithm):
    """Federated averaging, and fine-tuning steps at each client when its model is used."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "step size of the hub", default=1.0)
    personal_lr: float = param(positive, "step size of the fine-tuning", default=0.01)
    personal_steps: int = param(
        at_least(1), "fine-tuning steps, each on all of a client's training rows", default=10
    )
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FineTuningHub:
        """A fresh model."""
        return FineTuningHub(fed.init_model(key))

    def round(self, hub: FineTuningHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean of the changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return FineTuningHub(hub.model + self.server_lr * changes.estimate(fed.weights)), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """K steps of stochastic gradient descent; the reply is the change of the model."""
        steps = steps_of(self.local_steps, f)
        w = descend(f.grad, model, key, lr=self.lr, steps=steps, optimiser=self.optimiser)
        return client, w - model

    def deployed(self, model: Array, client: Nothing, f: SmoothOracle, /) -> Array:
        """The model after the client's own steps."""
        return descend(
            lambda x, key: f.full_grad(x), model, draws.key(0),  # which draws nothing
            lr=self.personal_lr, steps=self.personal_steps, optimiser=self.optimiser,
        )  # fmt: skip
