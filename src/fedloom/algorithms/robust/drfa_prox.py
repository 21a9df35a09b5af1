"""DRFA-Prox: DRFA with a concave term in lambda, handled by its proximal map.

Deng, Kamani, Mahdavi. NeurIPS 2020, Algorithm 2.

    min_{w in W}  max_{lambda in the simplex}  sum_i lambda_i f_i(w) + g(lambda)

    the round of DRFA (see drfa.py) up to the estimate v of the losses; then, with
    a = lambda + weight_lr K v,
    hub         lambda <- argmax_{u in the simplex}  K g(u) - |u - a|^2 / (2 weight_lr)

    prior "quadratic"   g(u) = -(mu / 2) |u - q|^2      prior "kl"   g(u) = -mu KL(u || q)

with q = 1 / n each. The larger mu, the closer lambda is kept to equal weights; mu to 0 is DRFA.
With c = weight_lr K mu, the first is P_simplex((a + c q) / (1 + c)), and in the second u_i solves
c log(u_i / q_i) + u_i = a_i - c - nu, with the nu at which the u_i sum to one.

With a cohort: as in DRFA, the limit is that of everyone. A round in which no loss arrives leaves
lambda as it is; else g would weigh more than stated.

Paper            here                     Paper           here
tau, eta         local_steps, lr          gamma           weight_lr
w_bar, lambda    RobustHub                m, N            cohort, fed.n

Differs from the paper: v carries n / m, without which g would weigh n / m times as much as stated.
The mean of the snapshots is reported as `average`, as for DRFA.
"""

import jax.numpy as jnp

from fedloom.algorithms.robust.exchanges import RobustHub, next_hub
from fedloom.algorithms.robust.probing import Probing
from fedloom.operators.simplex import proximal_kl, proximal_quadratic
from fedloom.oracles import FedView
from fedloom.parameters import at_least, one_of, param, positive
from fedloom.protocol import Round, algorithm
from fedloom.types import Array

_PRIORS = {"quadratic": proximal_quadratic, "kl": proximal_kl}


@algorithm
class DRFAProx(Probing):
    """Distributionally robust averaging that stays near equal weights."""

    lr: float = param(positive, "step size of the local steps")
    weight_lr: float = param(positive, "step size of the clients' weights, lambda")
    mu: float = param(positive, "how strongly lambda is held to equal weights")
    prior: str = param(
        one_of(*_PRIORS), "by what distance lambda is held to equal weights", default="quadratic"
    )
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = param(
        at_least(1).or_none("everyone, weighed by lambda"),
        "clients that train, and clients that are probed, in a round",
        default=None,
    )

    def round(self, hub: RobustHub, fed: FedView, key: Array, /) -> Round:
        """DRFA's exchanges, then the proximal map of g."""
        probed = yield from self._train_and_probe(hub, fed, key)
        rate = self.weight_lr * self.local_steps
        equal = jnp.full_like(hub.weights, 1 / fed.n)
        proximal = _PRIORS[self.prior]
        moved = proximal(hub.weights + rate * probed.losses, rate * self.mu, equal)
        weights = jnp.where(probed.heard, moved, hub.weights)
        return next_hub(hub, probed.model, weights, iterate=probed.snapshot)
