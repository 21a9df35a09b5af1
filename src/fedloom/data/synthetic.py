"""FedProx's synthetic(alpha, beta) data, with two classes.

For each client k, with d features and m samples:

    u_k ~ Normal(0, alpha),  B_k ~ Normal(0, beta)      alpha and beta are standard deviations
    v_k ~ Normal(B_k, 1)^d,  x ~ Normal(v_k, diag(j^-1.2)),  j = 1 .. d
    w_k ~ Normal(u_k, 1)^d,  c_k ~ Normal(u_k, 1),  label = sign(w_k'x + c_k), where 0 counts as +1

alpha says how much the clients' labelling differs, beta how much their features do. Li et al.,
"Federated optimization in heterogeneous networks", MLSys 2020, have ten classes, labelled by the
largest of ten scores W_k'x + b_k. There u_k adds the same number u_k (sum_j x_j + 1) to every
score, so alpha never changes a label. One vector in the place of a difference of two gives alpha
its meaning back; `labels="argmax"` keeps the original with two scores.

Choices: every client has the same number of samples, where the original draws lognormal ones. The
intercept c_k takes part in the labels only. Rows are divided by their length after they are
labelled, so that a logistic loss has smoothness 1/4; `normalise=False` leaves them as drawn.
"""

import numpy as np

from fedloom.data.clients import Clients
from fedloom.draws import SEED
from fedloom.errors import ParameterError
from fedloom.parameters import at_least, at_least_zero, check, flag, one_of
from fedloom.rows import Rows


def synthetic(
    alpha: float,
    beta: float,
    *,
    clients: int = 30,
    samples: int = 2000,
    features: int = 60,
    labels: str = "sign",
    normalise: bool = True,
    seed: int = 0,
) -> Clients:
    """Clients whose labelling differs by alpha and whose features differ by beta.

    Args:
        alpha: Standard deviation of u_k: how much labelling differs between clients.
        beta: Standard deviation of B_k: how much features differ between clients.
        clients: How many clients there are.
        samples: How many rows each of them has.
        features: The dimension d.
        labels: "sign" of one score, or "argmax" of two, where alpha has no effect.
        normalise: Whether rows have length one.
        seed: All numbers come from it. Draws do not depend on alpha, beta and labels, so that
            with one seed the same noise is scaled.
    """
    for name, value, rule in (
        ("alpha", alpha, at_least_zero),
        ("beta", beta, at_least_zero),
        ("clients", clients, at_least(1)),
        ("samples", samples, at_least(1)),
        ("features", features, at_least(1)),
        ("labels", labels, one_of("sign", "argmax")),
        ("normalise", normalise, flag),
        ("seed", seed, SEED),
    ):
        check("synthetic", name, value, rule)
    rng = np.random.default_rng(seed)
    spread = np.arange(1, features + 1) ** -0.6  # the square root of j^-1.2
    x = np.empty((clients, samples, features))
    y = np.empty((clients, samples), np.int64)
    for k in range(clients):
        shift, centre = rng.normal(0, (alpha, beta))
        x[k] = rng.normal(rng.normal(centre, 1, features), spread, (samples, features))
        vectors = rng.normal(shift, 1, (features + 1, 2))  # the last row is the intercept
        scores = x[k] @ vectors[:-1] + vectors[-1]
        y[k] = scores.argmax(axis=1) if labels == "argmax" else scores[:, 0] >= 0
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ParameterError(
            f"synthetic: alpha and beta must be so small that rows are finite numbers; got alpha = "
            f"{alpha:g} and beta = {beta:g}. Try 1.0 for both."
        )
    if normalise:
        x /= lengths
    return Clients(
        Rows(x.reshape(-1, features), y.reshape(-1)),
        np.full(clients, samples),
        tuple(f"client {k}" for k in range(clients)),
        np.array([-1, 1]),
    )
