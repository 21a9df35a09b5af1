"""q-FedSGD: gradient descent that gives clients with a large loss more say.

Li, Sanjabi, Beirami, Smith. Fair resource allocation in federated learning. ICLR 2020, Algorithm 1.

    min_w  sum_i a_i f_i(w)^(q+1) / (q + 1)

    client i    sends  D_i = f_i(w)^q grad f_i(w)
                and    h_i = q f_i(w)^(q-1) |grad f_i(w)|^2 + f_i(w)^q / lr
    hub         w <- w - sum_S D_i / sum_S h_i

Loss and gradient are taken over all of the client's rows, whatever the batch size of the run. The
step needs no tuning for q > 0: where 1 / lr bounds the curvature of the f_i, the sum of the h_i
bounds that of the objective.

With a cohort: the step is a quotient of two sums over S, and on average over the draws it is not
the quotient of the sums over all clients. With a cohort of one, f_i^q cancels, and with short steps
the limit is that of q = 0, in which clients count equally under "uniform" and by a_i under
"by_weight". The larger the cohort, the closer the limit is to the solution of the stated problem,
which everyone together reaches.

Paper            here                     Paper           here
L                1 / lr                   p_k             the problem's weights

Differs from the paper: sampling is as for q-FedAvg, alike and added by the problem's weights
("uniform"), or by weight with replacement and added alike ("by_weight").
"""

from fedloom.algorithms.robust.q_fair import Pull, QFairHub, powers, sampling_param, scaled_step
from fedloom.cohorts import cohort_param
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least_zero, param
from fedloom.protocol import Algorithm, Round, algorithm
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


@algorithm
class QFedSGD(Algorithm):
    """Fair gradient descent: one step a round, weighed by powers of the loss."""

    lr: StepSize = param(step_size, "step size, as tuned for q = 0")
    q: float = param(at_least_zero, "how much more clients with a large loss count; 0: not at all")
    cohort: int | None = cohort_param()
    sampling: str = sampling_param()

    def init_hub(self, fed: FedView, key: Array, /) -> QFairHub:
        """A fresh model."""
        return QFairHub(fed.init_model(key))

    def round(self, hub: QFairHub, fed: FedView, key: Array, /) -> Round:
        """Gradients of a cohort, then their scaled sum."""
        step = yield from scaled_step(self.slope, hub, fed, key, self.cohort, self.sampling)
        return QFairHub(hub.model - step), ()

    def slope(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Pull]:
        """The full gradient, weighed by the loss."""
        grad = f.full_grad(model)
        weight, slope = powers(f.full_value(model), self.q)
        return client, Pull(weight * grad, slope * (grad @ grad) + weight / self.lr)
