"""Fast-FedDA: dual averaging for strongly convex losses.

Bao, Crawshaw, Luo, Liu. Fast composite optimization and statistical recovery in federated learning.
ICML 2022, Algorithm 2.

    primal(G, X, e, c) = argmin_v <G/e, v> + g(v) + (mu/4) mean_{past} |v - v_s|^2
                                  + (gamma / (2e)) |v - x0|^2
                       = prox_{g/B}(-A/B),  A = G/e - (mu/2) X/c - gamma x0/e,  B = mu/2 + gamma/e
    client i    G_i = G, X_i = X, v = w;  K times:
                    G_i <- G_i + g_i(v);  e <- e + 1;  v <- primal(G_i, X_i, e, c);
                    X_i <- X_i + v;  c <- c + 1
    hub         G <- G + (n/m) sum_S a_i (G_i - G);   X <- sum_S a_i X_i / sum_S a_i
                w = primal(G, X, e, c)

G is the sum of all gradients and X that of all models, c terms, since the start.

With a cohort: G is unbiased for the sum of the gradients of the stated problem, whose solution is
the limit. X is a mean of points, which come together as steps fall; then any weights that sum to
one will do. A round without replies does not count.

Differs from the paper: the count. The released program divides X by e, and once it has w from X it
adds w to X, K + 1 terms in a round for a divisor that grows by K; its limit minimises
f + g - (mu / (4K)) |w|^2 instead of f + g. `count = "consistent"` divides by the number of terms;
`count = "released"` does what the program does. The model w is not sent: clients compute it from G
and X as the hub does, and in the released count they add it to X. The starting point x0 is sent
once, in the opening.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import cohort_param, everyone, uniform
from fedloom.local import repeat
from fedloom.oracles import FedView, SmoothOracle
from fedloom.parameters import at_least, at_least_zero, one_of, param, positive
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Nothing


class RunningSums(NamedTuple):
    """The sums of all gradients and of all models so far, and the number of steps."""

    gradients: Array  # G
    models: Array  # X
    steps: Array  # e


class FastFedDAHub(NamedTuple):
    """The sums, and the starting point."""

    sums: RunningSums
    start: Array


class FastFedDAClient(NamedTuple):
    """The starting point, which every step refers to."""

    start: Array


@algorithm
class FastFedDA(Algorithm):
    """Dual averaging with steps that fall like 1 / (mu e)."""

    takes_regulariser: ClassVar[bool] = True

    mu: float = param(positive, "strong convexity of the losses")
    gamma: float = param(at_least_zero, "weight of the pull towards the start", default=1.0)
    local_steps: int = param(at_least(1), "local steps a round", default=5)
    cohort: int | None = cohort_param()
    count: str = param(
        one_of("consistent", "released"),
        "divide the sum of models by its number of terms, or as in the released program",
        default="consistent",
    )

    def init_hub(self, fed: FedView, key: Array, /) -> FastFedDAHub:
        """Sums of no gradients and, as the only model, the starting point."""
        start = fed.init_model(key)
        zero = jnp.zeros((), start.dtype)
        return FastFedDAHub(RunningSums(jnp.zeros_like(start), start, zero), start)

    def init_client(self, f: SmoothOracle, key: Array, /) -> FastFedDAClient:
        """Zeros, until the opening tells where the run starts."""
        return FastFedDAClient(f.zeros())

    def opening(self, hub: FastFedDAHub, fed: FedView, key: Array, /) -> Round:
        """Tell everyone where the run starts."""
        yield ask(self.meet, hub.start, to=everyone(fed.n))
        return hub, ()

    def meet(
        self, client: FastFedDAClient, start: Array, f: SmoothOracle, key: Array, /
    ) -> tuple[FastFedDAClient, Nothing]:
        """Remember the starting point."""
        return FastFedDAClient(start), ()

    def round(self, hub: FastFedDAHub, fed: FedView, key: Array, /) -> Round:
        """Local steps at a cohort, then the means of both sums."""
        changes = yield ask(self.train, hub.sums, to=uniform(key, fed.n, self.cohort))
        sums = RunningSums(
            hub.sums.gradients + changes.estimate(fed.weights).gradients,
            hub.sums.models + changes.average(fed.weights).models,
            hub.sums.steps + changes.cohort.any() * self.local_steps,
        )
        return FastFedDAHub(sums, hub.start), ()

    def train(
        self, client: FastFedDAClient, sums: RunningSums, f: SmoothOracle, key: Array, /
    ) -> tuple[FastFedDAClient, RunningSums]:
        """K steps; the reply is how the sums changed."""

        def step(state: tuple[RunningSums, Array], key: Array) -> tuple[RunningSums, Array]:
            inner, v = state
            gradients, steps = inner.gradients + f.grad(v, key), inner.steps + 1
            v = self._primal(RunningSums(gradients, inner.models, steps), steps, client.start, f)
            return RunningSums(gradients, inner.models + v, steps), v

        first, begun = self._hub_model(sums, client.start, f), sums
        if self.count == "released":  # at the start, X has the hub's model already
            begun = sums._replace(models=sums.models + jnp.where(sums.steps > 0, first, 0))
        last, _ = repeat(step, (begun, first), key, self.local_steps)
        return client, RunningSums(
            last.gradients - sums.gradients, last.models - sums.models, last.steps - sums.steps
        )

    def model(self, hub: FastFedDAHub, fed: FedView, /) -> Array:
        """The model of the sums."""
        return self._hub_model(hub.sums, hub.start, fed)

    def _hub_model(self, sums: RunningSums, start: Array, view: FedView | SmoothOracle) -> Array:
        """The model between two rounds; X then has one term more than there were steps."""
        terms = sums.steps if self.count == "released" else sums.steps + 1
        steps = jnp.maximum(sums.steps, 1)
        model = self._primal(sums._replace(steps=steps), jnp.maximum(terms, 1), start, view)
        return jnp.where(sums.steps > 0, model, start)

    def _primal(
        self, sums: RunningSums, terms: Array, start: Array, view: FedView | SmoothOracle
    ) -> Array:
        """The primal map above; hub and clients have the proximal map of g in their view."""
        linear = sums.gradients / sums.steps - self.mu / 2 * sums.models / terms
        linear = linear - self.gamma * start / sums.steps
        curvature = self.mu / 2 + self.gamma / sums.steps
        return view.prox(-linear / curvature, 1 / curvature)
