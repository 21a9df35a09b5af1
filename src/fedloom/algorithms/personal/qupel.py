"""QuPeL: own quantised models that are held near a common one of the same shape.

Ozkara, Singh, Data, Diggavi. NeurIPS 2021 (QuPeD), Algorithm 3.

    F_i = f_i(x) + f_i(Q_c(x)) + lambda R(x, c) + (lp / 2) ( |x - w|^2 + |Q_c(x) - w|^2 )

    hub         w to a cohort
    client i    w_i = w;  K times, each on one batch:
                x_i <- proximal step on F_i,  then c_i <- the same  (quantisation.py)
                w_i <- w_i - lr_w lp [ (w_i - x_i) + (w_i - Q_c(x_i)) ]      at the new x_i, c_i
    hub         w <- w + (n/m) sum_S a_i (w_i - w)

With a cohort: averaged over the draws of S, a step is that of full participation, so with short
steps w converges to the same point as with everyone. Own models stay as they are while their client
is absent.

Paper            here                     Paper             here
lambda_p         closeness                eta_1, eta_3      lr, common_lr
tau              local_steps              eta_2, lambda(t)  quantise.centre_lr, quantise.pull

Differs from the paper: synchronise, then step (see `quped.py`); own models begin at the common one.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

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
from fedloom.parameters import at_least_zero, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class QuPeL(Algorithm):
    """Quantised personal models that are kept near a common one."""

    takes: ClassVar[str] = "personal"
    personal_models: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the own models")
    common_lr: StepSize = param(step_size, "step size of the common model", default=0.5)
    closeness: float = param(at_least_zero, "weight lambda_p of the distance", default=0.2)
    quantise: Quantisation | None = quantise_param()
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    decay: float = decay_param()

    def init_hub(self, fed: FedView, key: Array, /) -> CommonHub:
        """A fresh common model."""
        return CommonHub(fed.init_model(key))

    def init_client(self, f: PersonalOracle, key: Array, /) -> QuantisedModel:
        """Nothing yet: the own model begins at the common one, in the first round."""
        if f.own.layout != f.layout:
            raise ParameterError(
                f"QuPeL needs own networks like the common one, {f.problem.model!r}; got "
                f"{f.own.problem.model!r}. Use QuPeD where architectures differ."
            )
        return start(self.quantise, f, f.zeros())

    def round(self, hub: CommonHub, fed: FedView, key: Array, /) -> Round:
        """Steps at a cohort, then the average of the common model's changes."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return CommonHub(hub.model + changes.estimate(fed.weights)), ()

    def train(
        self, client: QuantisedModel, model: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[QuantisedModel, Array]:
        """K steps on x, c and w; the reply is the change of the common model."""

        def own_slope(w: Array, batch: Any) -> Slope:
            """f_i'(x) + lp (x - w), as a function of x."""
            return lambda x: f.own.grad_on(x, batch) + self.closeness * (x - w)

        def common_slope(w: Array, models: list[Array], batch: Any) -> Array:
            """(w - x) + (w - Q_c(x))."""
            return sum((w - x for x in models), jnp.zeros_like(w))

        steps = steps_of(self.local_steps, f)
        begun = self._begun(client, model, f)
        client, w = joint_steps(
            begun, model, f, key, steps=steps, own_slope=own_slope, common_slope=common_slope,
            quantise=self.quantise, lr=self.lr, common_lr=self.common_lr,
            coupling=self.closeness, decay=self.decay,
        )  # fmt: skip
        return client, w - model

    def deployed(self, model: Array, client: QuantisedModel, f: PersonalOracle, /) -> Array:
        """The client's quantised model."""
        return quantised(self.quantise, f, self._begun(client, model, f))

    def _begun(self, client: QuantisedModel, model: Array, f: PersonalOracle) -> QuantisedModel:
        """The client's point; before its first step, the common model."""
        fresh = start(self.quantise, f, model)
        return jax.tree.map(lambda a, b: jnp.where(client.steps == 0, a, b), fresh, client)
