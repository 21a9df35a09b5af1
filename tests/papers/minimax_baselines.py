"""Optimistic, smoothed and dually extrapolated descent ascent in plain NumPy, on AUC."""

import jax
import numpy as np


def optimistic_local_sgda(clients, drawn, *, lr, dual_lr, local_steps, rounds, cohort):
    """Local steps along 2 g - h, h of the step before; a plain one where there was none."""
    u, al = clients.start()
    last = {}  # of each client the round of its last step, and its gradients
    for r in range(1, rounds + 1):
        ends = []
        for i in drawn.cohort(r, cohort):
            x, y = u, al
            before = last[i][1] if i in last and last[i][0] == r - 1 else None
            for rows in drawn.batches(drawn.key(r, 1, i), i, local_steps):
                now = clients.grads(i, x, y, rows)
                hx, hy = now if before is None else before
                x, y = x - lr * (2 * now[0] - hx), y + dual_lr * (2 * now[1] - hy)
                before = now
            last[i] = r, before
            ends.append((x, y))
        u, al = np.mean([e[0] for e in ends], axis=0), np.mean([e[1] for e in ends], axis=0)
        u = clients.prox(u, lr * local_steps)
    return u, al


def fess_gda(
    clients, drawn, *, lr, dual_lr, local_steps, rounds, cohort, smoothing, tracking,
    server_lr, server_dual_lr,
):  # fmt: skip
    """The hub steps on f(x, y) + (p / 2) |x - z|^2, and z follows."""
    u, al = clients.start()
    z = u
    for r in range(1, rounds + 1):
        ends = []
        for i in drawn.cohort(r, cohort):
            x, y = u, al
            for rows in drawn.batches(drawn.key(r, 1, i), i, local_steps):
                gx, gy = clients.grads(i, x, y, rows)
                x, y = x - lr * gx, y + dual_lr * gy
            ends.append((x, y))
        xs, ys = np.mean([e[0] for e in ends], axis=0), np.mean([e[1] for e in ends], axis=0)
        pull = lr * server_lr * local_steps * smoothing * (u - z)
        u = clients.prox(u + server_lr * (xs - u) - pull, server_lr * lr * local_steps)
        al = al + server_dual_lr * (ys - al)
        z = z + tracking * (u - z)
    return u, al


def fedualex(clients, drawn, *, lr, dual_lr, local_steps, rounds, cohort, server_lr):
    """Algorithm 1 with l = |z|^2 / 2, by omega = sbar - s as in its section 4.2."""
    u, al = clients.start()
    for r in range(rounds):
        ends = []
        for i in drawn.cohort(r + 1, cohort):
            x, y = u, al
            for k in range(local_steps):
                e = (server_lr * r * local_steps + k) * lr
                step_key = drawn.nth(drawn.key(r + 1, 1, i), k)
                one, two = (drawn.rows(key, i) for key in jax.random.split(step_key))
                gx, gy = clients.grads(i, clients.prox(x, e), y, one)
                hx, hy = clients.prox(x - lr * gx, e + lr), y + dual_lr * gy
                gx, gy = clients.grads(i, hx, hy, two)
                x, y = x - lr * gx, y + dual_lr * gy
            ends.append((x, y))
        u = u + server_lr * (np.mean([e[0] for e in ends], axis=0) - u)
        al = al + server_lr * (np.mean([e[1] for e in ends], axis=0) - al)
    return clients.prox(u, server_lr * rounds * local_steps * lr), al
