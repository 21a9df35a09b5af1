"""The composite family in plain NumPy, from the papers' listings, for g = l1 |x|_1."""

import numpy as np


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


def decoupled_prox(clients, draws, *, lr, steps, rounds, l1, server_lr=1.0, x=None, c=None):
    """Zhang, Hu, Johansson, Algorithm 1; returns x_bar, its proximal map, and all c_i by round."""
    n, d = clients.n, clients.d
    x = np.zeros(d) if x is None else x
    c = np.zeros((n, d)) if c is None else c
    et, history = lr * server_lr * steps, []
    for r in range(1, rounds + 1):
        history.append(c)
        p, zh_all, slopes = soft(x, et * l1), [], []
        for i in range(n):
            zh, z, s = p.copy(), p.copy(), np.zeros(d)
            for t, batch in enumerate(draws.batches(r, 1, i, steps)):
                q = clients.grad(i, z, batch)
                s = s + q
                zh = zh - lr * (q + c[i])
                z = soft(zh, (t + 1) * lr * l1)
            zh_all.append(zh)
            slopes.append(s)
        x_new = p + server_lr * (np.mean(zh_all, axis=0) - p)
        c = np.array([(p - x_new) / (server_lr * lr * steps) - s / steps for s in slopes])
        x = x_new
    return x, soft(x, et * l1), np.array(history)


def fedmid(clients, draws, *, lr, steps, rounds, l1, cohort=None, server_lr=1.0, server_prox=True):
    """Yuan, Zaheer, Reddi 2021, Algorithm 1, Euclidean."""
    w = np.zeros(clients.d)
    for r in range(1, rounds + 1):
        trained = []
        for i in draws.cohort(r, cohort):
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                w_i = soft(w_i - lr * clients.grad(i, w_i, batch), lr * l1)
            trained.append(w_i)
        w = w + server_lr * (np.mean(trained, axis=0) - w)
        if server_prox:
            w = soft(w, server_lr * lr * steps * l1)
    return w


def feddualavg(clients, draws, *, lr, steps, rounds, l1, cohort=None, server_lr=1.0):
    """Yuan, Zaheer, Reddi 2021, Algorithm 2, Euclidean; r and k count from zero."""
    z = np.zeros(clients.d)
    for r in range(rounds):
        duals = []
        for i in draws.cohort(r + 1, cohort):
            z_i = z.copy()
            for k, batch in enumerate(draws.batches(r + 1, 1, i, steps)):
                w = soft(z_i, (server_lr * lr * r * steps + lr * k) * l1)
                z_i = z_i - lr * clients.grad(i, w, batch)
            duals.append(z_i)
        z = z + server_lr * (np.mean(duals, axis=0) - z)
    return soft(z, server_lr * lr * rounds * steps * l1)


def fast_fedda(clients, draws, *, mu, gamma, steps, rounds, l1, cohort=None, released=False):
    """Bao et al. 2022, Algorithm 2, counting terms, or as the released program counts."""
    d = clients.d
    x0 = np.zeros(d)

    def primal(gradients, models, e, c):
        a = gradients / e - mu / 2 * models / c - gamma * x0 / e
        b = mu / 2 + gamma / e
        return soft(-a / b, l1 / b)

    g_sum, x_sum, w, terms = np.zeros(d), x0.copy(), x0.copy(), 1
    for r in range(1, rounds + 1):
        sums = []
        for i in draws.cohort(r, cohort):
            g, x, v, c = g_sum.copy(), x_sum.copy(), w.copy(), terms
            for k, batch in enumerate(draws.batches(r, 1, i, steps), 1):
                g = g + clients.grad(i, v, batch)
                e = (r - 1) * steps + k
                v = primal(g, x, e, e if released else c)
                x, c = x + v, c + 1
            sums.append((g, x))
        g_sum, x_sum = (np.mean(part, axis=0) for part in zip(*sums, strict=True))
        terms += steps
        e = r * steps
        w = primal(g_sum, x_sum, e, e if released else terms)
        if released:  # after w is found from X, which the next round goes on with
            x_sum = x_sum + w
    return w


def inexact_prox(clients, i, centre, step, start, batches, lr):
    x = start.copy()
    for batch in batches:
        x = x - lr * (clients.grad(i, x, batch) + (x - centre) / step)
    return x


def feddr(clients, draws, *, step, lr, steps, rounds, l1, relaxation=1.0, cohort=None):
    """Tran-Dinh et al. 2021, Algorithm 1, with everyone's first point."""
    n, d = clients.n, clients.d
    y = np.zeros((n, d))
    x = np.array(
        [inexact_prox(clients, i, y[i], step, y[i], draws.batches(0, 1, i, steps), lr)
         for i in range(n)]
    )  # fmt: skip
    xh = 2 * x - y
    for r in range(1, rounds + 1):
        xb = soft(xh.mean(0), step * l1)
        for i in draws.cohort(r, cohort):
            y[i] = y[i] + relaxation * (xb - x[i])
            x[i] = inexact_prox(clients, i, y[i], step, x[i], draws.batches(r, 1, i, steps), lr)
            xh[i] = 2 * x[i] - y[i]
    return soft(xh.mean(0), step * l1)


def fedadmm(clients, draws, *, rho, lr, steps, rounds, l1, cohort=None):
    """Wang, Marella, Anderson 2022: primal and dual steps on the augmented Lagrangian."""
    n, d = clients.n, clients.d
    x, z, xb = np.zeros((n, d)), np.zeros((n, d)), np.zeros(d)
    for r in range(rounds + 1):
        for i in range(n) if r == 0 else draws.cohort(r, cohort):
            for batch in draws.batches(r, 1, i, steps):
                slope = clients.grad(i, x[i], batch) + z[i] + rho * (x[i] - xb)
                x[i] = x[i] - lr * slope
            z[i] = z[i] + rho * (x[i] - xb)
        xb = soft((x + z / rho).mean(0), l1 / rho)
    return xb
