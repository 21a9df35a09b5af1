"""FedADMM: consensus ADMM with partial participation.

Wang, Marella, Anderson. FedADMM: a federated primal-dual algorithm allowing partial participation.
CDC 2022, Algorithm 1.

    augmented Lagrangian   (1/n) sum_i [f_i(x_i) + <z_i, x_i - xb> + (rho/2) |x_i - xb|^2] + g(xb)
    i in S      x_i ~ argmin_x f_i(x) + <z_i, x> + (rho/2) |x - xb|^2;   z_i <- z_i + rho (x_i - xb)
                sends the change of  xh_i = x_i + z_i / rho
    hub         xt = (1/n) sum_i xh_i over all clients;   xb = prox_{g/rho}(xt)

It is FedDR with relaxation 1 and step 1/rho, whoever takes part.

With a cohort: the hub's mean is over all clients, with the last reply of each, so the fixed points
are those of full participation, whoever takes part. With exact proximal points the limit is exact.

Differs from the paper: where the problem weighs clients, means carry those weights. The opening
asks everyone for one step from the common start (z_i = 0), so that absent clients have an xh_i; the
paper lets the mean begin at the start. The linear term moves into the centre of the proximal point:
<z, x> + (rho/2) |x - xb|^2 has its minimum where (rho/2) |x - (xb - z/rho)|^2 has.
"""

from typing import ClassVar, NamedTuple

from fedloom.cohorts import cohort_param, everyone, uniform
from fedloom.local import accuracy_param, proximal_point, steps_of, steps_rule
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class FedADMMHub(NamedTuple):
    """The mean of all clients' xh_i, of which the model is the proximal map."""

    mean: Array


class FedADMMClient(NamedTuple):
    """A client's point, its dual, and xh_i as the hub knows it."""

    point: Array
    dual: Array
    sent: Array


@algorithm
class FedADMM(Algorithm):
    """Consensus ADMM with partial participation."""

    takes_regulariser: ClassVar[bool] = True

    rho: float = param(positive, "weight of the augmentation")
    lr: StepSize = param(step_size, "step size of the local solver")
    local_steps: int | str = param(steps_rule, "steps of the local solver, at most", default=10)
    accuracy: float | None = accuracy_param()
    cohort: int | None = cohort_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedADMMHub:
        """A fresh model, which the opening sends to everyone."""
        return FedADMMHub(fed.init_model(key))

    def init_client(self, f: SmoothOracle, key: Array, /) -> FedADMMClient:
        """Zero dual; the opening brings the point and xh_i."""
        return FedADMMClient(f.zeros(), f.zeros(), f.zeros())

    def opening(self, hub: FedADMMHub, fed: FedView, key: Array, /) -> Round:
        """Everyone's first step, from the common start."""
        sent = yield ask(self.begin, hub.mean, to=everyone(fed.n))
        return FedADMMHub(sent.sum(fed.weights)), ()

    def round(self, hub: FedADMMHub, fed: FedView, key: Array, /) -> Round:
        """A cohort moves; of the others, the last xh_i stay in the mean."""
        changes = yield ask(self.move, self.model(hub, fed), to=uniform(key, fed.n, self.cohort))
        return FedADMMHub(hub.mean + changes.sum(fed.weights)), ()

    def begin(
        self, client: FedADMMClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[FedADMMClient, Array]:
        """The first step, with a zero dual, from the common start."""
        client = self._step(client._replace(point=model), model, f, key)
        return client, client.sent

    def move(
        self, client: FedADMMClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[FedADMMClient, Array]:
        """One step; the reply is the change of xh_i."""
        moved = self._step(client, model, f, key)
        return moved, moved.sent - client.sent

    def model(self, hub: FedADMMHub, fed: FedView, /) -> Array:
        """The proximal map of the mean."""
        return fed.prox(hub.mean, 1 / self.rho)

    def _step(
        self, client: FedADMMClient, model: Array, f: SmoothOracle, key: Array
    ) -> FedADMMClient:
        point = proximal_point(
            f,
            model - client.dual / self.rho,
            1 / self.rho,
            client.point,
            key,
            lr=self.lr,
            steps=steps_of(self.local_steps, f),
            accuracy=self.accuracy,
        )
        dual = client.dual + self.rho * (point - model)
        return FedADMMClient(point, dual, point + dual / self.rho)
