"""Local training: every client on its own, nothing is shared.

    client i    K times a round:  x_i <- x_i - lr g_i(x_i)

The yardstick below which personalisation is no gain; `QuantizedTraining` is the same for quantised
models. Messages are empty, and the hub's model stays as it began. With a cohort, the others wait.

Differs from the paper (any that compares with it) in that steps are counted in rounds.
"""

from typing import ClassVar, NamedTuple

from fedloom.algorithms.personal.quantisation import Point, decay_param, descend, passes, start
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.oracles import FedView, PersonalOracle
from fedloom.parameters import param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Nothing


class LocalHub(NamedTuple):
    """A model that nobody trains, for those who ask the hub for one."""

    model: Array


@algorithm
class LocalTraining(Algorithm):
    """Stochastic gradient descent at every client, on its own rows and its own network."""

    takes: ClassVar[str] = "personal"

    lr: float = param(positive, "step size")
    local_steps: int | str = param(steps_rule, "steps a round", default=10)
    cohort: int | None = cohort_param()
    decay: float = decay_param()

    def init_hub(self, fed: FedView, key: Array, /) -> LocalHub:
        """A fresh model."""
        return LocalHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> Point:
        """A fresh model of the client's own."""
        return start(None, f, f.own.init(key))

    def round(self, hub: LocalHub, fed: FedView, key: Array, /) -> Round:
        """A cohort trains."""
        yield ask(self.train, (), to=uniform(key, fed.n, self.cohort))
        return hub, ()

    def train(
        self, client: Point, message: Nothing, f: PersonalOracle, key: Array, /
    ) -> tuple[Point, Nothing]:
        """K steps on the client's own model."""

        def step(point: Point, key: Array) -> Point:
            lr = self.lr * self.decay ** passes(point, f)
            return descend(None, f, point, lambda x: f.own.grad(x, key), lr)

        return repeat(step, client, key, steps_of(self.local_steps, f)), ()

    def deployed(self, model: Array, client: Point, f: PersonalOracle, /) -> Array:
        """The client's own model."""
        return client.model
