"""q-FedAvg: averaging that gives clients with a large loss more say.

Li, Sanjabi, Beirami, Smith. Fair resource allocation in federated learning. ICLR 2020, Algorithm 2.

    min_w  sum_i a_i f_i(w)^(q+1) / (q + 1)

    client i    v_i = K steps of gradient descent from w, of size lr;   G_i = (w - v_i) / lr
                sends  D_i = f_i(w)^q G_i   and   h_i = q f_i(w)^(q-1) |G_i|^2 + f_i(w)^q / lr
    hub         w <- w - sum_S D_i / sum_S h_i

f_i(w) is the loss over all of the client's rows. q = 0 is FedAvg; the larger q, the more the worst
client counts. Both sums are sent times lr, in which q = 0 gives the very numbers of FedAvg.

With a cohort: the step is a quotient of two sums over S, and on average over the draws it is not
the quotient of the sums over all clients. With a cohort of one, f_i^q cancels, and with short steps
the limit is that of q = 0, in which clients count equally under "uniform" and by a_i under
"by_weight". The larger the cohort, the closer the limit is to the solution of the stated problem,
which everyone together reaches.

Paper            here                     Paper           here
L                1 / lr                   E epochs        local_steps = "E epochs"
p_k              the problem's weights    F_k             f_i

Differs from the paper: it draws clients by weight and adds them alike ("by_weight"); here that is
with replacement, where the released program draws without. "uniform" (the default) draws clients
alike and adds them by the problem's weights, as FedAvg does.
"""

from fedloom.algorithms.robust.q_fair import Pull, QFairHub, powers, sampling_param, scaled_step
from fedloom.cohorts import cohort_param
from fedloom.local import repeat, steps_of, steps_rule
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least_zero, param
from fedloom.protocol import Algorithm, Round, algorithm
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


@algorithm
class QFedAvg(Algorithm):
    """Fair averaging: local steps, weighed by powers of the loss."""

    lr: StepSize = param(step_size, "step size of the local steps, as tuned for q = 0")
    q: float = param(at_least_zero, "how much more clients with a large loss count; 0: FedAvg")
    local_steps: int | str = param(steps_rule, "local steps a round", default=10)
    cohort: int | None = cohort_param()
    sampling: str = sampling_param()

    def init_hub(self, fed: FedView, key: Array, /) -> QFairHub:
        """A fresh model."""
        return QFairHub(fed.init_model(key))

    def round(self, hub: QFairHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the scaled sum of the changes."""
        step = yield from scaled_step(self.train, hub, fed, key, self.cohort, self.sampling)
        return QFairHub(hub.model + step), ()

    def train(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Pull]:
        """K steps; the reply is the change of the model, weighed by the loss before."""

        def step(w: Array, key: Array) -> Array:
            return w - self.lr * f.grad(w, key)

        change = repeat(step, model, key, steps_of(self.local_steps, f)) - model
        weight, slope = powers(f.full_value(model), self.q)
        return client, Pull(weight * change, slope * (change @ change) / self.lr + weight)
