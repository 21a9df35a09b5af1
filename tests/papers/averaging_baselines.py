"""Averaging with a thoughtful hub or thoughtful clients, in plain NumPy, from the papers' listings."""

import numpy as np


def trained(clients, draws, w, *, lr, steps, round, client):
    """Gradient steps of a client from w."""
    for batch in draws.batches(round, 1, client, steps):
        w = w - lr * clients.grad(client, w, batch)
    return w


def shares(clients, chosen, weights):
    """Unbiased for sums over all clients: (n/m) a_i."""
    weights = np.ones(clients.n) if weights is None else np.asarray(weights, float)
    return clients.n / len(chosen) * (weights / weights.sum())[chosen]


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
