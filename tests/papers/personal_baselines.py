"""Baselines of the personal family in plain NumPy, from the papers' listings."""

import numpy as np


def fine_tuned(clients, w, *, lr, steps):
    """Every client's model after steps of its own on all of its rows, from a common w."""
    own = []
    for i in range(clients.n):
        x = w
        for _ in range(steps):
            x = x - lr * clients.grad(i, x)
        own.append(x)
    return np.array(own)


def ditto(clients, draws, *, lr, penalty, personal_lr, steps, personal_steps, rounds, cohort):
    """Li et al. 2021, Algorithm 1, with FedAvg's steps; own models begin at the first w received.

    Returns w, and the own models of those who took part.
    """
    w, v = np.zeros(clients.d), {}
    for r in range(1, rounds + 1):
        changes = []
        for i in draws.cohort(r, cohort):
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                w_i = w_i - lr * clients.grad(i, w_i, batch)
            v_i = v.get(i, w)
            for batch in draws.batches(r, 1, i, personal_steps):
                v_i = v_i - personal_lr * (clients.grad(i, v_i, batch) + penalty * (v_i - w))
            v[i] = v_i
            changes.append(w_i - w)
        w = w + np.mean(changes, axis=0)
    return w, v
