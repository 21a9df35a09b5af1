"""FedNova: averaging that stays consistent where clients take unlike numbers of steps.

Wang, Liu, Liang, Joshi, Poor. Tackling the objective inconsistency problem in heterogeneous
federated optimization. NeurIPS 2020, Section 4.

    client i    tau_i times:  u <- momentum u + g_i(w_i);   w_i <- w_i - lr u
                sends  d_i = (w - w_i) / (lr |a_i|),  where w - w_i = lr sum_k a_ik g_ik
    hub         w <- w - server_lr te lr (n/|S|) sum_S p_i d_i,     te = sum_i p_i |a_i|

|a_i| is the sum of the factors with which gradients enter: tau_i for plain steps, and with momentum
rho  (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho). Plain averaging of unlike numbers of
steps solves the problem with weights p_i |a_i|; the normalised directions keep those of the
problem, p_i.

Paper            here                     Paper           here
tau_i, eta       local_steps, lr          rho             momentum
p_i              the problem's weights    tau_eff         te, FedNovaHub.steps

With a cohort: te is over all n clients, whoever takes part, so averaged over the draws of S a step
is that of full participation, and with short steps the limit is the solution of the stated problem.
The paper takes te over the cohort. That is large in rounds with clients that take many steps, and
with a small cohort it brings the weights p_i |a_i| back. If the tau_i differ, the hub asks once, in
the opening, for |a_i|: one number from each client, of which it needs only the sum.

Differs from the paper: te as said, and the sum over a cohort is unbiased where weights differ, as
in FedAvg. tau_i = "5 epochs" is five passes over the client's own rows. With equal tau_i and
without momentum the steps are those of FedAvg.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import cohort_param, everyone, uniform
from fedloom.local import descend, steps_of, steps_rule
from fedloom.optimisers import Momentum
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import below_one, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing, Scalar


class FedNovaHub(NamedTuple):
    """The global model, and te: the mean of |a_i| over all clients."""

    model: Array
    steps: Array


def _added_up(steps: Array | int, momentum: Scalar) -> Array:
    """|a_i|, the sum of the factors of a client's gradients."""
    zero = jnp.zeros_like(jnp.asarray(momentum, float))

    def more(_: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        factor = momentum * sums[0] + 1
        return factor, sums[1] + factor

    # Counted: the formula above cancels where the momentum is near 1.
    return jax.lax.fori_loop(0, steps, more, (zero, zero))[1]


@algorithm
class FedNova(Algorithm):
    """Normalised averaging: clients may do unequal work, and the problem stays the same."""

    lr: StepSize = param(step_size, "step size of the local steps")
    local_steps: int | str = param(steps_rule, "local steps a round", default="1 epoch")
    cohort: int | None = cohort_param()
    server_lr: StepSize = param(step_size, "factor of the hub's step size", default=1.0)
    momentum: float = param(
        below_one, "momentum of the local steps, which starts afresh in each round", default=0.0
    )

    def init_hub(self, fed: FedView, key: Array, /) -> FedNovaHub:
        """A fresh model; steps that are the same for all need not be asked for."""
        model = fed.init_model(key)
        known = self.local_steps if isinstance(self.local_steps, int) else 1
        return FedNovaHub(model, _added_up(known, self.momentum).astype(model.dtype))

    def opening(self, hub: FedNovaHub, fed: FedView, key: Array, /) -> Round:
        """The mean of |a_i| over all clients, where they differ."""
        if isinstance(self.local_steps, int):
            return hub, ()
        steps = (yield ask(self.count, (), to=everyone(fed.n))).average(fed.weights)
        # Nobody takes less than a step, whatever noise or loss there is on the way.
        return hub._replace(steps=jnp.maximum(steps, 1)), ()

    def count(
        self, client: Nothing, message: Nothing, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """What this client's gradients of a round add up to."""
        added = _added_up(steps_of(self.local_steps, f), self.momentum)
        return client, added.astype(f.layout.dtype)

    def round(self, hub: FedNovaHub, fed: FedView, key: Array, /) -> Round:
        """Normalised changes of a cohort, and as many steps as all clients take in the mean."""
        changes = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        step = self.server_lr * hub.steps * changes.estimate(fed.weights)
        return hub._replace(model=hub.model + step), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Array]:
        """As many steps as this client takes; the reply is their change, as of one of them."""
        steps, heavy = steps_of(self.local_steps, f), Momentum(self.momentum)
        w = descend(f.grad, model, key, lr=self.lr, steps=steps, optimiser=heavy)
        return client, (w - model) / _added_up(steps, self.momentum)
