"""FedPer: a body that all clients share, and a head of each client's own.

Arivazhagan, Aggarwal, Singh, Choudhary. Federated learning with personalization layers. 2019.

    min_{b, h_i}  sum_i a_i f_i(b, h_i)

    hub         b to a cohort
    client i    w_i = (b, h_i);  K times:  w_i <- w_i - lr g_i(w_i);   h_i stays
    hub         b <- b + (n/m) sum_S a_i (b_i - b)
    deployed    (b, h_i)

Which arrays are the head is said by `own`, a regular expression for their names; by default it is
the last layer. Only the body is sent. The hub's model has the head that it began with, which no
client uses.

With a cohort: averaged over the draws of S, a step is that of full participation in b, so with
short steps the limit is the solution of the stated problem. Heads stay as they are while their
client is absent.

Paper            here                     Paper             here
W_B, W_P         shared, own arrays       K_P               own

Differs from the paper: changes of b are averaged rather than bodies. Clients may be drawn, where
the paper asks everyone.
"""

from typing import ClassVar

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
class FedPer(Algorithm):
    """Averaging of a body, with heads that stay at the clients."""

    takes: ClassVar[str] = "personal"

    lr: StepSize = param(step_size, "step size of the local steps")
    own: str | None = personal_param("the last layer")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> PersonalArrays:
        """A fresh head."""
        return PersonalArrays(self._parts(f.layout).personal_of(f.init(key)))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean of the changes of the body."""
        parts = self._parts(fed.layout)
        body = parts.shared_of(hub.model)
        changes = yield ask(self.train, body, to=uniform(key, fed.n, self.cohort))
        body = body + changes.estimate(fed.weights)
        return CommonHub(parts.join(body, parts.personal_of(hub.model))), ()

    def train(
        self, client: PersonalArrays, body: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[PersonalArrays, Array]:
        """K steps on body and head; the reply is the change of the body."""
        parts = self._parts(f.layout)
        w = descend(
            f.grad, parts.join(body, client.own), key,
            lr=self.lr, steps=steps_of(self.local_steps, f), optimiser=self.optimiser,
        )  # fmt: skip
        return PersonalArrays(parts.personal_of(w)), parts.shared_of(w) - body

    def deployed(self, model: Array, client: PersonalArrays, f: PersonalOracle, /) -> Array:
        """The common body with the client's head."""
        parts = self._parts(f.layout)
        return parts.join(parts.shared_of(model), client.own)

    def _parts(self, layout: Layout) -> Parts:
        if self.own is None:
            return head_of("FedPer", layout)
        return parts_by("FedPer", layout, self.own)
