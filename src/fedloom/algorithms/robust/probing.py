"""What DRFA and DRFA-Prox share: local steps with a snapshot, and losses that are probed there."""

from typing import ClassVar, NamedTuple

import jax

from fedloom.algorithms.robust.exchanges import Exchanges, RobustHub, first_hub, mean_by_lambda
from fedloom.cohorts import uniform
from fedloom.local import projected_steps_keeping
from fedloom.oracles import FedView, SmoothOracle
from fedloom.protocol import Algorithm, ask
from fedloom.types import Array, Nothing


class Task(NamedTuple):
    """Where local steps begin, and after how many of them a snapshot is taken."""

    model: Array
    stop: Array


class Trained(NamedTuple):
    """How the client's model had changed at the end, and at the snapshot."""

    change: Array
    snapshot: Array


class Probed(NamedTuple):
    """What a round of DRFA knows before lambda moves."""

    model: Array  # the next model
    snapshot: Array  # the model after t' steps
    losses: Array  # (n,) v: an unbiased estimate of all clients' losses at the snapshot
    heard: Array  # whether any loss arrived; else lambda must stay


class Probing(Algorithm):
    """The base of methods whose lambda follows the losses at a model on the way."""

    takes_constraint: ClassVar[bool] = True
    lr: float  # fields of every method
    local_steps: int
    cohort: int | None

    def init_hub(self, fed: FedView, key: Array, /) -> RobustHub:
        """A fresh model and equal weights."""
        return first_hub(fed, key)

    def _train_and_probe(
        self, hub: RobustHub, fed: FedView, key: Array, sampling: str = "by_weight"
    ) -> Exchanges:
        """Steps 1 to 6 of DRFA's listing: all but the step of lambda."""
        draw_key, stop_key, probe_key = jax.random.split(key, 3)
        stop = jax.random.randint(stop_key, (), 1, self.local_steps + 1)
        trained = yield from mean_by_lambda(
            self.train, Task(hub.model, stop), hub.weights, fed, draw_key, self.cohort, sampling
        )
        # A mean of points of W is in W; one whose weights do not sum to one need not be.
        model = fed.prox(hub.model + trained.change, self.lr)
        snapshot = fed.prox(hub.model + trained.snapshot, self.lr)
        losses = yield ask(self.probe, snapshot, to=uniform(probe_key, fed.n, self.cohort))
        estimate = losses.cohort.scale(fed.n) * losses.scatter(fed.n)
        return Probed(model, snapshot, estimate, losses.cohort.any())

    def other_models(self, hub: RobustHub, fed: FedView, /) -> dict[str, Array]:
        """The mean of the snapshots."""
        return {"average": hub.averages.model}

    def train(
        self, client: Nothing, task: Task, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Trained]:
        """K projected steps; the reply is the change at their end and at the snapshot."""
        last, kept = projected_steps_keeping(
            f, task.model, key, lr=self.lr, steps=self.local_steps, keep=task.stop
        )
        return client, Trained(last - task.model, kept - task.model)

    def probe(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """The loss on one batch."""
        return client, f.value(model, key)
