"""FedAvg, FedProx and SCAFFOLD in plain NumPy, from the papers' listings."""

import numpy as np


def in_round(step, r):
    """A step size, which may be a function of the round."""
    return step(r) if callable(step) else step


def plain():
    """Steps along the gradient; an optimiser is a function that makes one for a client's round."""
    return lambda w, gradient, lr: w - lr * gradient


def fedavg(
    clients, draws, *, lr, steps, cohort, rounds, server_lr=1.0, weights=None, optimiser=plain
):
    """McMahan et al. 2017, Algorithm 1."""
    weights = np.ones(clients.n) if weights is None else np.asarray(weights, float)
    w = np.zeros(clients.d)
    for r in range(1, rounds + 1):
        chosen, trained = draws.cohort(r, cohort), []
        for i in chosen:
            w_i, move = w.copy(), optimiser()
            for batch in draws.batches(r, 1, i, steps):
                w_i = move(w_i, clients.grad(i, w_i, batch), in_round(lr, r))
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


def scaffold(
    clients, draws, *, lr, steps, cohort, rounds, server_lr=1.0, option="II", optimiser=plain
):
    """Karimireddy et al. 2020, Algorithm 1; returns the model, c and all c_i."""
    x, c = np.zeros(clients.d), np.zeros(clients.d)
    c_i = np.zeros((clients.n, clients.d))
    for r in range(1, rounds + 1):
        dy, dc = [], []
        for i in draws.cohort(r, cohort):
            y, move, total = x.copy(), optimiser(), 0
            for batch in draws.batches(r, 1, i, steps):
                gradient = clients.grad(i, y, batch)
                y, total = move(y, gradient - c_i[i] + c, in_round(lr, r)), total + gradient
            if option == "I":
                c_plus = clients.grad(i, x)
            elif optimiser is plain:
                c_plus = c_i[i] - c + (x - y) / (steps * in_round(lr, r))
            else:  # the same in other words, where steps are not along gradients
                c_plus = total / steps
            dy.append(y - x)
            dc.append(c_plus - c_i[i])
            c_i[i] = c_plus
        x = x + server_lr * np.mean(dy, axis=0)
        c = c + len(dc) / clients.n * np.mean(dc, axis=0)
    return x, c, c_i
