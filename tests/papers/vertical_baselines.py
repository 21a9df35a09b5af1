"""Vertical yardsticks from numerical analysis in plain NumPy, for `vertical.Columns`."""

import numpy as np


def conjugate_gradients(data, rounds):
    """Hestenes and Stiefel 1952 on (A'A + l2 I) x = A'b, as textbooks print it."""
    a = data.whole
    h = a.T @ a + data.l2 * np.eye(a.shape[1])
    x = np.zeros(a.shape[1])
    r = a.T @ data.b
    p, first = r, r @ r
    for _ in range(rounds):
        if r @ r <= 1e-28 * first:  # rounding is all that is left
            break
        alpha = r @ r / (p @ h @ p)
        x = x + alpha * p
        new = r - alpha * h @ p
        p = new + new @ new / (r @ r) * p
        r = new
    return x


def optimistic(data, step, rounds):
    """w <- w - step (2 F(w) - F(old w)) on all blocks at once; returns shares and slack."""
    a, d = data.whole, sum(data.widths)

    def operator(w):
        x, z, y = w[:d], w[d : d + data.s], w[d + data.s :]
        return np.concatenate([a.T @ y + data.l2 * x, data.slope(z) - y, z - a @ x])

    w = np.zeros(d + 2 * data.s)
    old = operator(w)
    for _ in range(rounds):
        now = operator(w)
        w, old = w - step * (2 * now - old), now
    return w[:d], w[d : d + data.s]


def lipschitz(data):
    """Of that operator, for the squared loss."""
    a = data.whole
    s, d = a.shape
    whole = np.block(
        [
            [data.l2 * np.eye(d), np.zeros((d, s)), a.T],
            [np.zeros((s, d)), np.eye(s) / data.beta**2, -np.eye(s)],
            [-a, np.eye(s), np.zeros((s, s))],
        ]
    )
    return np.linalg.norm(whole, 2)
