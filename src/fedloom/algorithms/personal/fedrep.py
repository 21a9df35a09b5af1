"""FedRep: a shared representation, and heads that are fitted to it before it moves.

Collins, Hassani, Mokhtari, Shakkottai. ICML 2021, Algorithm 1.

    min_b  sum_i a_i min_{h_i} f_i(b, h_i)

    hub         b to a cohort
    client i    head_steps times:  h_i <- h_i - head_lr d/dh g_i(b, h_i)
                b_i = b;  K times:  b_i <- b_i - lr d/db g_i(b_i, h_i),   with the new h_i
    hub         b <- b + (n/m) sum_S a_i (b_i - b)
    deployed    (b, h_i)

Which arrays are the head is said by `own`, a regular expression for their names; by default it is
the last layer. Only the body is sent. The hub's model has the head that it began with, which no
client uses. FedPer has the same exchange, and moves both parts together.

With a cohort: averaged over the draws of S, a step is that of full participation in b, so with
short steps the limit is the solution of the stated problem. Heads stay as they are while their
client is absent.

Paper            here                     Paper             here
phi, h_i         shared, own arrays       tau, alpha        head_steps, head_lr and lr

Differs from the paper: its listing takes one step on b, its experiments an epoch; here there are
local_steps of them. Changes of b are averaged rather than bodies.
"""

from typing import ClassVar

import jax

from fedloom.algorithms.personal.personal_arrays import (
    Parts,
    PersonalArrays,
    head_of,
    parts_by,
    personal_param,
)
from fedloom.algorithms.personal.personal_models import CommonHub
from fedloom.cohorts import cohort_param, uniform
from fedloom.layout import Layout
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Optimiser, optimiser_param
from fedloom.oracles import FedView, PersonalOracle
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class FedRep(Algorithm):
    """Alternating steps on own heads and on the shared body."""

    takes: ClassVar[str] = "personal"

    lr: StepSize = param(step_size, "step size of the body")
    own: str | None = personal_param("the last layer")
    local_steps: int | str = param(steps_rule, "steps a round on the body", default=10)
    head_lr: StepSize | None = param(
        step_size.or_none("lr"), "step size of the heads", default=None
    )
    head_steps: int | str = param(steps_rule, "steps a round on a head", default=10)
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> PersonalArrays:
        """A fresh head."""
        return PersonalArrays(self._parts(f.layout).personal_of(f.init(key)))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Steps on heads and bodies at a cohort, then the mean of the changes of the body."""
        parts = self._parts(fed.layout)
        body = parts.shared_of(hub.model)
        changes = yield ask(self.train, body, to=uniform(key, fed.n, self.cohort))
        body = body + changes.estimate(fed.weights)
        return CommonHub(parts.join(body, parts.personal_of(hub.model))), ()

    def train(
        self, client: PersonalArrays, body: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[PersonalArrays, Array]:
        """Steps on the head, then on the body; the reply is the change of the body."""
        parts = self._parts(f.layout)
        head_key, body_key = jax.random.split(key)
        head = descend(
            lambda h, key: parts.personal_of(f.grad(parts.join(body, h), key)),
            client.own, head_key,
            lr=self.lr if self.head_lr is None else self.head_lr,
            steps=steps_of(self.head_steps, f), optimiser=self.optimiser,
        )  # fmt: skip
        moved = descend(
            lambda b, key: parts.shared_of(f.grad(parts.join(b, head), key)), body, body_key,
            lr=self.lr, steps=steps_of(self.local_steps, f), optimiser=self.optimiser,
        )  # fmt: skip
        return PersonalArrays(head), moved - body

    def deployed(self, model: Array, client: PersonalArrays, f: PersonalOracle, /) -> Array:
        """The common body with the client's head."""
        parts = self._parts(f.layout)
        return parts.join(parts.shared_of(model), client.own)

    def _parts(self, layout: Layout) -> Parts:
        if self.own is None:
            return head_of("FedRep", layout)
        return parts_by("FedRep", layout, self.own)
