"""FedAvg, FedProx and SCAFFOLD in plain NumPy, from the papers' listings."""

import numpy as np


def in_round(step, r):
    """A step size, which may be a function of the round."""
    return step(r) if callable(step) else step


def fedavg(clients, draws, *, lr, steps, cohort, rounds, server_lr=1.0, weights=None):
    """McMahan et al. 2017, Algorithm 1."""
    weights = np.ones(clients.n) if weights is None else np.asarray(weights, float)
    w = np.zeros(clients.d)
    for r in range(1, rounds + 1):
        chosen, trained = draws.cohort(r, cohort), []
        for i in chosen:
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                w_i = w_i - in_round(lr, r) * clients.grad(i, w_i, batch)
            trained.append(w_i)
        # Unbiased for sum_i a_i (w_i - w) over all clients, where the print divides by sum_S a_i.
        a = clients.n / len(chosen) * (weights / weights.sum())[chosen]
        w = w + server_lr * sum(a_i * (w_i - w) for a_i, w_i in zip(a, trained, strict=True))
    return w


def fedprox(clients, draws, *, lr, mu, steps, cohort, rounds, taken=None):
    """Li et al. 2020, Algorithm 2, uniform sampling, equal weights.

    `taken(round, client)` says how many steps a client takes; all take `steps` without it.
    """
    w = np.zeros(clients.d)
    for r in range(1, rounds + 1):
        trained = []
        for i in draws.cohort(r, cohort):
            v = w.copy()
            count = steps if taken is None else taken(r, i)
            for batch in draws.batches(r, 1, i, count):
                v = v - lr * (clients.grad(i, v, batch) + mu * (v - w))
            trained.append(v)
        w = np.mean(trained, axis=0)
    return w


def scaffold(clients, draws, *, lr, steps, cohort, rounds, server_lr=1.0, option="II"):
    """Karimireddy et al. 2020, Algorithm 1; returns the model, c and all c_i."""
    x, c = np.zeros(clients.d), np.zeros(clients.d)
    c_i = np.zeros((clients.n, clients.d))
    for r in range(1, rounds + 1):
        dy, dc = [], []
        for i in draws.cohort(r, cohort):
            y = x.copy()
            for batch in draws.batches(r, 1, i, steps):
                y = y - in_round(lr, r) * (clients.grad(i, y, batch) - c_i[i] + c)
            if option == "I":
                c_plus = clients.grad(i, x)
            else:
                c_plus = c_i[i] - c + (x - y) / (steps * in_round(lr, r))
            dy.append(y - x)
            dc.append(c_plus - c_i[i])
            c_i[i] = c_plus
        x = x + server_lr * np.mean(dy, axis=0)
        c = c + len(dc) / clients.n * np.mean(dc, axis=0)
    return x, c, c_i
