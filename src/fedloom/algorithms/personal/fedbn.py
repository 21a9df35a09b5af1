"""FedBN: everything is averaged but the norms, which are each client's own.

Li, Jiang, Zhang, Kamp, Dou. ICLR 2021, Algorithm 1.

    hub         w without its norms to a cohort
    client i    w_i = (w, n_i), n_i its norms;  K times:  w_i <- w_i - lr g_i(w_i);   n_i stays
    hub         w <- w + (n/m) sum_S a_i (w_i - w),  without norms
    deployed    (w, n_i)

For clients whose inputs differ (other scanners, other scales) rather than their labels. Norms are
the arrays that a network which came from PyTorch lists as such, with the statistics of batch norms
where these are trained (norm = "local"); else those with "norm" or "bn" in their names, and scales
with the bias beside them. `own`, a regular expression for names, says otherwise. Norms are not
sent; the hub's model has those that it began with, which no client uses. The exchange is FedPer's.

With a cohort: averaged over the draws of S, a step is that of full participation in w, so with
short steps the limit solves min_{w, n_i} sum_i a_i f_i(w, n_i). Norms stay as they are while their
client is absent.

Differs from the paper: changes of w are averaged rather than models. Clients may be drawn, where
the paper asks everyone. A new client begins with the network's fresh norms.
"""

import re
from typing import Any, ClassVar

from fedloom.algorithms.personal.personal_arrays import (
    Parts,
    PersonalArrays,
    parts_by,
    parts_of,
    personal_param,
    refusal,
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
class FedBN(Algorithm):
    """Averaging of all but the norms."""

    takes: ClassVar[str] = "personal"

    lr: StepSize = param(step_size, "step size of the local steps")
    own: str | None = personal_param("the norms")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    optimiser: Optimiser = optimiser_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> PersonalArrays:
        """Fresh norms."""
        return PersonalArrays(self._parts(f).personal_of(f.init(key)))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the mean of the changes of all but the norms."""
        parts = self._parts(fed)
        shared = parts.shared_of(hub.model)
        changes = yield ask(self.train, shared, to=uniform(key, fed.n, self.cohort))
        shared = shared + changes.estimate(fed.weights)
        return CommonHub(parts.join(shared, parts.personal_of(hub.model))), ()

    def train(
        self, client: PersonalArrays, shared: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[PersonalArrays, Array]:
        """K steps on the whole model; the reply is the change of all but the norms."""
        parts = self._parts(f)
        w = descend(
            f.grad, parts.join(shared, client.own), key,
            lr=self.lr, steps=steps_of(self.local_steps, f), optimiser=self.optimiser,
        )  # fmt: skip
        return PersonalArrays(parts.personal_of(w)), parts.shared_of(w) - shared

    def deployed(self, model: Array, client: PersonalArrays, f: PersonalOracle, /) -> Array:
        """The common model with the client's norms."""
        parts = self._parts(f)
        return parts.join(parts.shared_of(model), client.own)

    def _parts(self, seen: PersonalOracle | FedView) -> Parts:
        """Of the common network, as a client or the hub sees it."""
        if self.own is not None:
            return parts_by("FedBN", seen.layout, self.own)
        problem: Any = seen.problem
        return norms_of(seen.layout, getattr(problem.model, "norm_arrays", ()))


def norms_of(layout: Layout, listed: tuple[str, ...]) -> Parts:
    """The parts of a network of which the norms are own: those listed, or else found by name."""
    names = layout.full_names
    own = listed or [name for name in names if _is_norm(name, names)]
    if not own:
        raise refusal("FedBN", names, "the network has no norms that could be own")
    return parts_of(layout, own)


def _is_norm(name: str, names: tuple[str, ...]) -> bool:
    layer, _, array = name.rpartition(".")
    beside_a_scale = array == "bias" and f"{layer}.scale" in names
    return beside_a_scale or re.search(r"norm|\bbn|_bn|\bscale$", name.lower()) is not None
