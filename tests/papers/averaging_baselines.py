"""Baselines of the averaging family in plain NumPy, from the papers' listings."""

import jax
import numpy as np

from fedloom import cohorts


def trained(clients, draws, w, *, lr, steps, round, client):
    """Gradient steps of a client from w."""
    for batch in draws.batches(round, 1, client, steps):
        w = w - lr * clients.grad(client, w, batch)
    return w


def normal(clients, weights):
    """The a_i, which sum to one."""
    weights = np.ones(clients.n) if weights is None else np.asarray(weights, float)
    return weights / weights.sum()


def shares(clients, chosen, weights):
    """Unbiased for sums over all clients: (n/m) a_i."""
    return clients.n / len(chosen) * normal(clients, weights)[chosen]


def fedopt(
    clients, draws, rule, *, lr, server_lr, steps, cohort, rounds,
    weights=None, momentum=None, b1=None, b2=None, tau=None,
):  # fmt: skip
    """Reddi et al. 2021, Algorithm 2, and FedAvgM; returns the model, m and v."""
    x, m = np.zeros(clients.d), np.zeros(clients.d)
    v = np.zeros(clients.d) if tau is None else np.full(clients.d, tau * tau)
    for t in range(1, rounds + 1):
        chosen = draws.cohort(t, cohort)
        deltas = [
            trained(clients, draws, x, lr=lr, steps=steps, round=t, client=i) - x for i in chosen
        ]
        delta = shares(clients, chosen, weights) @ np.array(deltas)
        if rule == "avgm":
            m = momentum * m + delta
            x = x + server_lr * m
            continue
        m = b1 * m + (1 - b1) * delta
        if rule == "adagrad":
            v = v + delta**2
        elif rule == "yogi":
            v = v - (1 - b2) * delta**2 * np.sign(v - delta**2)
        else:
            v = b2 * v + (1 - b2) * delta**2
        x = x + server_lr * m / (np.sqrt(v) + tau)
    return x, m, v


def fednova(
    clients, draws, *, lr, taken, cohort, rounds, server_lr=1.0, momentum=0.0, weights=None
):
    """Wang et al. 2020, Section 4, with the effective steps of all clients, not of the cohort.

    `taken[i]` is tau_i.
    """
    # Gradient k of tau enters the last model 1 + momentum + .. times: tau - k terms.
    factors = [
        np.array([sum(momentum**j for j in range(tau - k)) for k in range(tau)]) for tau in taken
    ]
    effective = normal(clients, weights) @ [a.sum() for a in factors]
    x = np.zeros(clients.d)
    for r in range(1, rounds + 1):
        chosen, directions = draws.cohort(r, cohort), []
        for i in chosen:
            w, u, gradients = x, np.zeros(clients.d), []
            for batch in draws.batches(r, 1, i, taken[i]):
                gradients.append(clients.grad(i, w, batch))
                u = momentum * u + gradients[-1]
                w = w - lr * u
            directions.append(factors[i] @ np.array(gradients) / factors[i].sum())
        d = shares(clients, chosen, weights) @ np.array(directions)
        x = x - server_lr * effective * lr * d
    return x


def feddyn(clients, draws, *, lr, alpha, steps, cohort, rounds, weights=None):
    """Acar et al. 2021, Algorithm 1; returns the model, h and the clients' gradients."""
    a = normal(clients, weights)
    theta, h = np.zeros(clients.d), np.zeros(clients.d)
    gradients = np.zeros((clients.n, clients.d))
    for r in range(1, rounds + 1):
        chosen, models = draws.cohort(r, cohort), []
        for i in chosen:
            v = theta
            for batch in draws.batches(r, 1, i, steps):
                v = v - lr * (clients.grad(i, v, batch) - gradients[i] + alpha * (v - theta))
            gradients[i] = gradients[i] - alpha * (v - theta)
            models.append(v)
        h = h - alpha * sum(a[i] * (v - theta) for i, v in zip(chosen, models, strict=True))
        theta = a[chosen] @ np.array(models) / a[chosen].sum() - h / alpha
    return theta, h, gradients


def tosses(drawn, p):
    """What the coin of Scaffnew says: a round's key for the cohort, and how often it was tossed."""

    def of(r):
        draw_key, coin_key = jax.random.split(drawn.hub_key(r))
        u = float(jax.random.uniform(coin_key, (), float))
        return draw_key, next(k for k in range(1, 1000) if 1 - u > (1 - p) ** k)

    return of


def scaffnew(clients, draws, rounds_of, *, lr, p, cohort, rounds, weights=None):
    """Mishchenko et al. 2022, Algorithm 2, as printed where everyone takes part.

    `rounds_of(round)` gives the key that draws the cohort, and how many tosses the coin takes to
    say that clients communicate. Returns the model and all h_i.
    """
    a, x = normal(clients, weights), np.zeros(clients.d)
    h = np.zeros((clients.n, clients.d))
    for r in range(1, rounds + 1):
        key, tosses = rounds_of(r)
        chosen, ends = np.asarray(cohorts.uniform(key, clients.n, cohort).ids).tolist(), {}
        for i in chosen:
            v = x
            for batch in draws.batches(r, 1, i, tosses):
                v = v - lr * (clients.grad(i, v, batch) - h[i])
            ends[i] = v
        if cohort is None:
            mean = sum(a[i] * v for i, v in ends.items())
            for i, v in ends.items():
                h[i] = h[i] + p / lr * (mean - v)
        else:  # only the cohort says what its gradients are; the mean of all h_i stays zero
            for i, v in ends.items():
                h[i] = h[i] + p / lr * (x - v)
            h = h - a @ h
            share = shares(clients, chosen, weights)
            mean = x + sum(s * (v - x) for s, v in zip(share, ends.values(), strict=True))
        x = mean
    return x, h
