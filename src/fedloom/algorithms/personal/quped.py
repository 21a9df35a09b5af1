"""QuPeD: own models of any shape and bit-width, which learn from a common one and teach it.

Ozkara, Singh, Data, Diggavi. NeurIPS 2021, Algorithm 2.

    F_i = (1 - lp) ( f_i(x) + f_i(Q_c(x)) ) + lambda R(x, c) + lp ( KD(x, w) + KD(Q_c(x), w) )
    KD(x, w) = mean over the client's rows of KL( s_w || s_x ),  s the softmax of the outputs

    hub         w to a cohort
    client i    w_i = w;  K times, each on one batch:
                x_i <- proximal step on F_i,  then c_i <- the same  (quantisation.py)
                w_i <- w_i - lr_w lp [ KD'_w(x_i, w_i) + KD'_w(Q_c(x_i), w_i) ]  at the new x_i, c_i
    hub         w <- w + (n/m) sum_S a_i (w_i - w)

Only the common model travels; x_i and c_i, of any architecture and bit-width, stay. The common
model is trained by distillation alone. At full precision Q, R and c are dropped, and with lp = 0
what is left is local training.

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps w converges to the same point as with everyone. Own models stay as they are while their client
is absent.

Paper            here                     Paper             here
lambda_p         guidance                 eta_1, eta_3      lr, common_lr
tau              local_steps              eta_2, lambda(t)  quantise.centre_lr, quantise.pull

Differs from the paper: synchronise, then step. The listing does one or the other, so that a round
has tau - 1 steps; `strict_listing` does so.
"""

from typing import Any, ClassVar

from fedloom.algorithms.personal.joint_steps import joint_steps
from fedloom.algorithms.personal.personal_models import CommonHub, decay_param
from fedloom.algorithms.personal.quantisation import (
    Quantisation,
    QuantisedModel,
    Slope,
    quantise_param,
    quantised,
    start,
)
from fedloom.cohorts import cohort_param, uniform
from fedloom.errors import ParameterError
from fedloom.local import steps_of, steps_rule
from fedloom.oracles import FedView, PersonalOracle
from fedloom.parameters import flag, fraction, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class QuPeD(Algorithm):
    """Quantised personal models that learn from a common one by distillation."""

    takes: ClassVar[str] = "personal"
    personal_models: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the own models")
    common_lr: StepSize = param(step_size, "step size of the common model", default=0.1)
    guidance: float = param(fraction, "weight lambda_p of the distillation", default=0.25)
    quantise: Quantisation | None = quantise_param()
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    decay: float = decay_param()
    strict_listing: bool = param(
        flag, "whether a round has one step less, as in the paper's listing", default=False
    )

    def __post_init__(self) -> None:
        if self.strict_listing and self.local_steps == 1:
            raise ParameterError(
                "QuPeD: local_steps must be at least 2 where strict_listing is true: one step of a "
                "round is left out; got 1. Try local_steps = 10."
            )

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh common model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> QuantisedModel:
        """A fresh model of the client's own, with centres that suit it."""
        return start(self.quantise, f, f.own.init(key))

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Steps at a cohort, then the average of the common model's changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return CommonHub(hub.model + changes.estimate(fed.weights)), ()

    def train(
        self, client: QuantisedModel, model: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[QuantisedModel, Array]:
        """K steps on x, c and w; the reply is the change of the common model."""

        def own_slope(w: Array, batch: Any) -> Slope:
            """(1 - lp) f_i'(x) + lp KD'_x(x, w), as a function of x."""
            teacher = f.outputs(w, batch)
            return lambda x: f.own.learn(x, batch, self.guidance, teacher)

        def common_slope(w: Array, models: list[Array], batch: Any) -> Array:
            """KD'_w(x, w) + KD'_w(Q_c(x), w)."""
            students = [f.own.outputs(x, batch) for x in models]
            return f.teach(w, batch, students)

        steps = steps_of(self.local_steps, f) - self.strict_listing
        client, w = joint_steps(
            client, model, f, key, steps=steps, own_slope=own_slope, common_slope=common_slope,
            quantise=self.quantise, lr=self.lr, common_lr=self.common_lr,
            coupling=self.guidance, decay=self.decay,
        )  # fmt: skip
        return client, w - model

    def deployed(self, model: Array, client: QuantisedModel, f: PersonalOracle, /) -> Array:
        """The client's quantised model."""
        return quantised(self.quantise, f, client)
