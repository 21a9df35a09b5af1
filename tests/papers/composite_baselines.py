"""FedCanon in plain NumPy, for g = l1 |x|_1."""

import numpy as np

from papers.composite import soft


def fedcanon(
    clients, draws, *, lr, steps, rounds, l1, cohort=None, server_lr=1.0, along_mean=False
):
    """One proximal map a round at the hub; c_i = s - v_i, s the hub's last step.

    With `along_mean`, s is the mean of all v_i: SCAFFOLD with a proximal map at the hub.
    """
    n, d = clients.n, clients.d
    z, s, v, et = np.zeros(d), np.zeros(d), np.zeros((n, d)), server_lr * lr * steps
    for r in range(1, rounds + 1):
        new = v.copy()
        for i in draws.cohort(r, cohort):
            u, seen = z, []
            for batch in draws.batches(r, 1, i, steps):
                seen.append(clients.grad(i, u, batch))
                u = u - lr * (seen[-1] + s - v[i])
            new[i] = np.mean(seen, axis=0)
        v = new
        after = soft(z - et * v.mean(0), et * l1)
        z, s = after, v.mean(0) if along_mean else (z - after) / et
    return z, v
