"""AFL: agnostic federated learning, stochastic gradients in the model and in lambda.

Mohri, Sivek, Suresh. ICML 2019, Algorithm "Stochastic-AFL".

    min_{w in W}  max_{lambda in the simplex}  sum_i lambda_i f_i(w)

    client i    sends g_i(w) and f_i(w), both at the same w and on the same batch
    hub         w <- P_W(w - lr sum_i lambda_i g_i)
                lambda <- P_simplex(lambda + weight_lr (f_1, .., f_n))

Every client takes part in every round, and every step is a round. The paper's answer is the mean of
all w, which is reported as `average`, beside the last one.

Paper                    here                  Paper           here
gamma_w, gamma_lambda    lr, weight_lr         lambda_0        1 / n each

Differs from the paper: lambda may range over the whole simplex. W is the problem's constraint. A
client that is lost in a round counts with a zero gradient and a zero loss, which shortens both
steps alike where all clients are lost equally often, and leaves the limit.
"""

from typing import ClassVar, NamedTuple

from fedloom.algorithms.robust.exchanges import MixtureHub, first_hub, next_hub
from fedloom.cohorts import everyone
from fedloom.operators.proximal import project_simplex
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Nothing


class Slope(NamedTuple):
    """A client's loss and gradient on one batch."""

    value: Array
    grad: Array


@algorithm
class AFL(Algorithm):
    """Agnostic federated learning: one gradient step a round, for the worst mixture of clients."""

    takes_constraint: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of the model")
    weight_lr: StepSize = param(step_size, "step size of the clients' weights, lambda")

    def init_hub(self, fed: FedView, key: Array, /) -> MixtureHub:
        """A fresh model and equal weights."""
        return first_hub(fed, key)

    def round(self, hub: MixtureHub, fed: FedView, key: Array, /) -> Round:
        """Down in the model, up in lambda."""
        slopes = yield ask(self.slope, hub.model, to=everyone(fed.n))
        model = fed.prox(hub.model - self.lr * slopes.sum(hub.weights).grad, self.lr)
        losses = slopes.scatter(fed.n).value
        weights = project_simplex(hub.weights + self.weight_lr * losses)
        return next_hub(hub, model, weights, iterate=model)

    def other_models(self, hub: MixtureHub, fed: FedView, /) -> dict[str, Array]:
        """The mean of all iterates."""
        return {"average": hub.averages.model}

    def slope(
        self, client: Nothing, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[Nothing, Slope]:
        """Loss and gradient on the same batch."""
        return client, Slope(*f.value_and_grad(model, key))
