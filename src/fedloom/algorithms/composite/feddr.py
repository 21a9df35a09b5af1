"""FedDR: randomised Douglas-Rachford splitting.

Tran-Dinh, Pham, Phan, Nguyen. NeurIPS 2021, Algorithm 1.

    start       y_i = x0;  x_i ~ prox_{step f_i}(y_i);  xh_i = 2 x_i - y_i;  xt = mean_i xh_i
    hub         xb = prox_{step g}(xt),  sent to a cohort S
    i in S      y_i <- y_i + relaxation (xb - x_i);  x_i ~ prox_{step f_i}(y_i);
                xh_i <- 2 x_i - y_i
    hub         xt <- xt + (1/n) sum_S (change of xh_i);   absent clients keep their xh_i

The proximal point of f_i is found by a number of gradient steps from the last x_i, or to a stated
accuracy of the gradient. f_i may be nonconvex.

Paper            here                     Paper           here
eta, alpha       step, relaxation         x_bar, x_tilde  prox of FedDRHub.mean, FedDRHub.mean

With a cohort: the hub's mean is over all clients, with the last reply of each, so the fixed points
are those of full participation, whoever takes part. With exact proximal points the limit is exact.

Differs from the paper: where the problem weighs clients, means carry those weights. The released
program starts y_i and xh_i at zero, which pulls the mean towards zero until every client has taken
part; here the opening asks everyone once, as the paper's listing does.
"""

from typing import ClassVar, NamedTuple

from fedloom.cohorts import cohort_param, everyone, uniform
from fedloom.local import accuracy_param, proximal_point, steps_of, steps_rule
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import between, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


class FedDRHub(NamedTuple):
    """The mean of all clients' reflected points, of which the model is the proximal map."""

    mean: Array


class FedDRClient(NamedTuple):
    """A client's centre y_i, its point x_i, and its reflected point xh_i as the hub knows it."""

    centre: Array
    point: Array
    reflected: Array


@algorithm
class FedDR(Algorithm):
    """Douglas-Rachford splitting with partial participation."""

    takes_regulariser: ClassVar[bool] = True

    step: float = param(positive, "parameter of the proximal maps of f_i and g")
    lr: StepSize = param(step_size, "step size of the local solver")
    local_steps: int | str = param(steps_rule, "steps of the local solver, at most", default=10)
    accuracy: float | None = accuracy_param()
    relaxation: float = param(between(0, 2), "relaxation of the centre", default=1.0)
    cohort: int | None = cohort_param()

    def init_hub(self, fed: FedView, key: Array, /) -> FedDRHub:
        """A fresh model, which the opening sends to everyone."""
        return FedDRHub(fed.init_model(key))

    def init_client(self, f: SmoothOracle, key: Array, /) -> FedDRClient:
        """Zeros, which the opening replaces by the client's first points."""
        return FedDRClient(f.zeros(), f.zeros(), f.zeros())

    def opening(self, hub: FedDRHub, fed: FedView, key: Array, /) -> Round:
        """Everyone's first proximal point, seen from the common start."""
        reflected = yield ask(self.begin, hub.mean, to=everyone(fed.n))
        return FedDRHub(reflected.sum(fed.weights)), ()

    def round(self, hub: FedDRHub, fed: FedView, key: Array, /) -> Round:
        """A cohort moves; of the others, the last reflected points stay in the mean."""
        changes = yield ask(self.move, self.model(hub, fed), to=uniform(key, fed.n, self.cohort))
        return FedDRHub(hub.mean + changes.sum(fed.weights)), ()

    def begin(
        self, client: FedDRClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[FedDRClient, Array]:
        """The first proximal point; the reply is the reflected point."""
        client = self._from(model, model, f, key)
        return client, client.reflected

    def move(
        self, client: FedDRClient, model: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[FedDRClient, Array]:
        """One step; the reply is the change of the reflected point."""
        centre = client.centre + self.relaxation * (model - client.point)
        moved = self._from(centre, client.point, f, key)
        return moved, moved.reflected - client.reflected

    def model(self, hub: FedDRHub, fed: FedView, /) -> Array:
        """The proximal map of the mean."""
        return fed.prox(hub.mean, self.step)

    def _from(self, centre: Array, start: Array, f: SmoothOracle, key: Array) -> FedDRClient:
        steps = steps_of(self.local_steps, f)
        point = proximal_point(
            f, centre, self.step, start, key, lr=self.lr, steps=steps, accuracy=self.accuracy
        )
        return FedDRClient(centre, point, 2 * point - centre)
