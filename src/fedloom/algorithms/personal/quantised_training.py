"""Quantised training at one place: weights and quantisation levels are learned together.

Ozkara, Singh, Data, Diggavi. NeurIPS 2021, Algorithm 1 (of QuPeD).

    min_{x,c}  f(x) + f(Q_c(x)) + lambda R(x, c)

    x <- prox_{lr lambda R(., c)}( x - lr [ f'(x) + J_x' f'(Q_c(x)) ] )
    c <- prox_{centre_lr lambda R(x, .)}( c - centre_lr J_c' f'(Q_c(x)) )      at the new x
    output Q_c(x)

On one client that holds all rows this is centralised training; on several, each trains for itself:
"local training" at few bits. `quantisation.py` says what the symbols are and how the schedule runs.
With Adam, the direction in the step of x is Adam's. Messages are empty, and the hub's model stays
as it began. With a cohort, the others wait.

Differs from the paper: in the sign of the centres' proximal map (`quantisation.py` says why, and
how to have it as released), and in that steps are counted in rounds.
"""

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from fedloom.algorithms.personal import quantisation
from fedloom.algorithms.personal.personal_models import IdleHub, decay_param, passes
from fedloom.algorithms.personal.quantisation import (
    Quantisation,
    QuantisedModel,
    quantise_param,
    quantised,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.oracles import FedView, PersonalOracle
from fedloom.parameters import one_of, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array

if TYPE_CHECKING:
    import optax


class QuantisedClient(NamedTuple):
    """The client's own model with its centres, and what the optimiser remembers."""

    point: QuantisedModel
    memory: Any


@algorithm
class QuantisedTraining(Algorithm):
    """Proximal training of a quantised model at every client, on its own rows."""

    takes: ClassVar[str] = "personal"
    personal_models: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the weights")
    quantise: Quantisation | None = quantise_param(Quantisation())
    local_steps: int | str = param(steps_rule, "steps a round", default=10)
    cohort: int | None = cohort_param()
    optimiser: str = param(one_of("sgd", "adam"), "local optimiser of the weights", default="sgd")
    decay: float = decay_param()

    def init_hub(self, fed: FedView, key: Array, /) -> IdleHub:
        """A fresh model, which stays as it is."""
        return IdleHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> QuantisedClient:
        """A fresh model of the client's own, with centres that suit it."""
        point = quantisation.start(self.quantise, f, f.own.init(key))
        return QuantisedClient(point, _rule(self.optimiser).init(point.model))

    def round(self, hub: IdleHub, fed: FedView, key: Array, /) -> Round:
        """A cohort takes K steps each; nothing comes back, and the hub stays as it is."""
        yield ask(self.train, (), to=uniform(key, fed.n, self.cohort))
        return hub, ()

    def train(
        self, client: QuantisedClient, message: tuple[()], f: PersonalOracle, key: Array, /
    ) -> tuple[QuantisedClient, tuple[()]]:
        """K steps on the client's own model and its centres."""

        def step(client: QuantisedClient, key: Array) -> QuantisedClient:
            batch = f.draw(key)

            def slope(x: Array) -> Array:
                return f.own.grad_on(x, batch)

            point = quantisation.freeze(self.quantise, f, client.point)
            gradient = quantisation.gradient(self.quantise, f, point, slope)
            direction, memory = _rule(self.optimiser).update(gradient, client.memory)
            lr = self.lr * self.decay ** passes(point.steps, f)
            moved = quantisation.move(self.quantise, f, point, slope, direction, lr)
            return QuantisedClient(moved, memory)

        return repeat(step, client, key, steps_of(self.local_steps, f)), ()

    def deployed(self, model: Array, client: QuantisedClient, f: PersonalOracle, /) -> Array:
        """The client's quantised model."""
        return quantised(self.quantise, f, client.point)


def _rule(optimiser: str) -> "optax.GradientTransformation":
    import optax

    return optax.scale_by_adam() if optimiser == "adam" else optax.identity()
