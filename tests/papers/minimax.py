"""The minimax family in plain NumPy, from the papers' listings, on AUC with g = l1 |w|_1."""

import jax
import numpy as np

from fedloom import cohorts, draws
from fedloom.algorithms.wrappers import unreliable


class AUCClients:
    """The square-loss AUC saddle with linear scores: u = (a, b, w), dual alpha; by hand."""

    def __init__(self, clients, l1):
        self.n, self.l1 = len(clients), l1
        self.x = [np.asarray(clients.of(i).x, float) for i in range(self.n)]
        self.y = [np.asarray(clients.of(i).y) for i in range(self.n)]
        self.d = self.x[0].shape[1] + 2
        self.p = np.concatenate(self.y).mean()

    def grads(self, i, u, alpha, rows=slice(None)):
        a, b, w = u[0], u[1], u[2:]
        x, p = self.x[i][rows], self.p
        pos, neg = self.y[i][rows] == 1, self.y[i][rows] == 0
        h = x @ w
        side = p * neg - (1 - p) * pos
        slope = 2 * (1 - p) * (h - a) * pos + 2 * p * (h - b) * neg + 2 * (1 + alpha) * side
        grad_w = (x * slope[:, None]).mean(0)
        grad_a = np.mean(-2 * (1 - p) * (h - a) * pos)
        grad_b = np.mean(-2 * p * (h - b) * neg)
        grad_alpha = np.mean(2 * h * side) - 2 * p * (1 - p) * alpha
        return np.array([grad_a, grad_b, *grad_w]), np.array([grad_alpha[0]])

    def value(self, i, u, alpha):
        a, b, w = u[0], u[1], u[2:]
        p, h = self.p, self.x[i] @ w
        pos, neg = self.y[i] == 1, self.y[i] == 0
        squares = (1 - p) * (h - a) ** 2 * pos + p * (h - b) ** 2 * neg
        cross = 2 * (1 + alpha) * h * (p * neg - (1 - p) * pos)
        return np.mean(p * (1 - p) + squares + cross - p * (1 - p) * alpha**2)

    def prox(self, u, step):
        w = u[2:]
        return np.array([*u[:2], *(np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0))])

    def sub(self, u):
        return np.array([0.0, 0.0, *(self.l1 * np.sign(u[2:]))])

    def start(self):
        return np.zeros(self.d), np.zeros(1)


class Drawn:
    """The random choices of a run with batches of b rows."""

    def __init__(self, clients, batch_size, seed=0, drop=0.0):
        self.sizes = [len(y) for y in clients.y]
        self.batch_size, self.root, self.drop = batch_size, draws.key(seed), drop

    def key(self, round, exchange, i):
        return draws.client_key(self.root, round, exchange, i)

    def rows(self, key, i):
        count = min(self.batch_size, self.sizes[i])
        return np.asarray(draws.distinct(key, draws.domain(self.sizes[i]), count))

    def nth(self, key, step):
        return draws.nth(key, step)

    def batches(self, key, i, steps):
        return [self.rows(self.nth(key, step), i) for step in range(steps)]

    def passes(self, i):
        return -(-self.sizes[i] // self.batch_size)

    def there(self, round):
        """Who takes part where everyone is asked, and some are away."""
        key = draws.fold(draws.hub_key(self.root, round), unreliable._AWAY)
        away = jax.random.bernoulli(key, self.drop, (len(self.sizes),))
        return np.flatnonzero(~np.asarray(away)).tolist()

    def cohort(self, round, size):
        return self.cohort_of(draws.hub_key(self.root, round), size)

    def cohort_of(self, key, size):
        return np.asarray(cohorts.uniform(key, len(self.sizes), size).ids).tolist()


def sgda_solver(clients, drawn, i, x, eta, beta, start, key, *, lr, epochs, accuracy, both):
    """C7c with the termination test C7a; returns the point and the iterations."""
    (w, y), taken, mu = start, 0, 2 * clients.p * (1 - clients.p)
    modulus = min(1 / beta, mu + both / beta)

    def operator(w, y, rows=slice(None)):
        gx, gy = clients.grads(i, w, y, rows)
        return gx + (w - x) / beta, -gy + both * (y - eta) / beta

    for epoch in range(epochs):
        tx, ty = operator(w, y)
        way = np.sum((w - start[0]) ** 2) + np.sum((y - start[1]) ** 2)
        if accuracy is not None and tx @ tx + ty @ ty <= modulus**2 * accuracy * way:
            break
        for rows in drawn.batches(draws.nth(key, epoch), i, drawn.passes(i)):
            tx, ty = operator(w, y, rows)
            w, y, taken = w - lr * tx, y - lr * ty, taken + 1
    return w, y, taken


def ffmdr(clients, drawn, *, beta, solver, cohort, rounds, consensus=False, server_prox="beta"):
    """Algorithm 1 of the FFMDR paper, corrected (C7), or with consensus on both blocks (C7b)."""
    z, v = clients.start()
    n = clients.n
    x, w, y, eta = [z] * n, [z] * n, [v] * n, [v] * n
    zt, yt = [z] * n, [v] * n
    step = beta if server_prox == "beta" else beta / n
    for r in range(1, rounds + 1):
        spent = np.zeros(n, int)
        for i in drawn.cohort(r, cohort):
            x[i] = x[i] + z - w[i]
            if consensus:
                eta[i] = eta[i] + v - y[i]
            w[i], y[i], spent[i] = sgda_solver(
                clients, drawn, i, x[i], eta[i], beta, (w[i], y[i]), drawn.key(r, 1, i),
                lr=solver.lr, epochs=solver.epochs, accuracy=solver.accuracy, both=int(consensus),
            )  # fmt: skip
            zt[i], yt[i] = 2 * w[i] - x[i], 2 * y[i] - eta[i]
        z, v = clients.prox(np.mean(zt, axis=0), step), np.mean(yt, axis=0)
    return z, np.array(w), np.array(y), spent


def local_steps(clients, drawn, i, u, al, key, *, lr, dual_lr, steps, sub=False, frozen=None):
    for rows in drawn.batches(key, i, steps):
        gx, gy = clients.grads(i, u, al, rows)
        if frozen is not None:
            gy = clients.grads(i, frozen, al, rows)[1]
        if sub:
            gx = gx + clients.sub(u)
        u, al = u - lr * gx, al + dual_lr * gy
    return u, al


def local_sgda(clients, drawn, *, lr, dual_lr, local_steps: int, rounds, cohort, sub=False):
    """C1, with g by the hub's prox or by subgradients."""
    u, al = clients.start()
    for r in range(1, rounds + 1):
        ends = [
            globals()["local_steps"](
                clients, drawn, i, u, al, drawn.key(r, 1, i), lr=lr, dual_lr=dual_lr,
                steps=local_steps, sub=sub,
            )
            for i in drawn.cohort(r, cohort)
        ]  # fmt: skip
        u, al = np.mean([e[0] for e in ends], axis=0), np.mean([e[1] for e in ends], axis=0)
        u = u if sub else clients.prox(u, lr * local_steps)
    return u, al


def fedsgda_plus(
    clients, drawn, *, lr, dual_lr, local_steps: int, snapshot_every, rounds, server_lr=1.0,
    server_dual_lr=1.0,
):  # fmt: skip
    """C4, first half; Local SGDA+ of C1 where the hub's steps are 1."""
    u, al = clients.start()
    frozen = u
    for r in range(1, rounds + 1):
        ends = [
            globals()["local_steps"](
                clients, drawn, i, u, al, drawn.key(r, 1, i), lr=lr, dual_lr=dual_lr,
                steps=local_steps, frozen=frozen,
            )
            for i in drawn.there(r)
        ]  # fmt: skip
        u = u + server_lr * (np.mean([e[0] for e in ends], axis=0) - u)
        al = al + server_dual_lr * (np.mean([e[1] for e in ends], axis=0) - al)
        u = clients.prox(u, server_lr * lr * local_steps)
        if r % snapshot_every == 0:
            frozen = u
    return u, al


def momentum_local_sgda(
    clients, drawn, *, lr, dual_lr, local_steps: int, rounds, averaging=1.0, momentum=0.5,
    dual_momentum=0.5,
):  # fmt: skip
    """C2, with the first directions averaged."""
    u, al = clients.start()
    n = clients.n
    first = [clients.grads(i, u, al, drawn.rows(drawn.key(0, 1, i), i)) for i in range(n)]
    dx, dy = np.mean([f[0] for f in first], axis=0), np.mean([f[1] for f in first], axis=0)
    for r in range(1, rounds + 1):
        ends = []
        for i in drawn.there(r):
            x, y, ex, ey = u, al, dx, dy
            for rows in drawn.batches(drawn.key(r, 1, i), i, local_steps):
                x, y = x - averaging * lr * ex, y + averaging * dual_lr * ey
                gx, gy = clients.grads(i, x, y, rows)
                ex = (1 - momentum * averaging) * ex + momentum * averaging * gx
                ey = (1 - dual_momentum * averaging) * ey + dual_momentum * averaging * gy
            ends.append((x, y, ex, ey))
        u, al, dx, dy = (np.mean([e[k] for e in ends], axis=0) for k in range(4))
        u = clients.prox(u, averaging * lr * local_steps)
    return u, al


def fedsgda_m(
    clients, drawn, *, lr, dual_lr, local_steps: int, rounds, momentum=0.1, dual_momentum=0.1
):
    """C4, second half: recursive momentum."""
    u, al = clients.start()
    n = clients.n
    first = [clients.grads(i, u, al) for i in range(n)]
    v, s = np.mean([f[0] for f in first], axis=0), np.mean([f[1] for f in first], axis=0)
    for r in range(1, rounds + 1):
        ends = []
        for i in drawn.there(r):
            x, y, vi, si = u, al, v, s
            for rows in drawn.batches(drawn.key(r, 1, i), i, local_steps):
                xn, yn = x - lr * vi, y + dual_lr * si
                (gxn, gyn), (gx, gy) = clients.grads(i, xn, yn, rows), clients.grads(i, x, y, rows)
                vi = gxn + (1 - momentum) * (vi - gx)
                si = gyn + (1 - dual_momentum) * (si - gy)
                x, y = xn, yn
            ends.append((x, y, vi, si))
        u, al, v, s = (np.mean([e[k] for e in ends], axis=0) for k in range(4))
        u = clients.prox(u, lr * local_steps)
    return u, al


def fed_norm_sgda(clients, drawn, *, lr, dual_lr, epochs, rounds, cohort):
    """C3 with tau_i passes over the own rows, equal weights, server rates as the clients'.

    tau_eff is (1/n) sum_i tau_i over all clients, whoever is drawn.
    """
    u, al = clients.start()
    n = clients.n
    tau_eff = np.mean([epochs * drawn.passes(i) for i in range(n)])
    for r in range(1, rounds + 1):
        chosen = drawn.cohort(r, cohort)
        gx, gy = np.zeros_like(u), np.zeros_like(al)
        for i in chosen:
            tau = epochs * drawn.passes(i)
            x, y = local_steps(
                clients, drawn, i, u, al, drawn.key(r, 1, i), lr=lr, dual_lr=dual_lr, steps=tau
            )
            weight = n / len(chosen) / n
            gx = gx + weight * (u - x) / (lr * tau)
            gy = gy + weight * (y - al) / (dual_lr * tau)
        u = clients.prox(u - tau_eff * lr * gx, tau_eff * lr)
        al = al + tau_eff * dual_lr * gy
    return u, al


def codasca(
    clients, drawn, *, lr, dual_lr, local_steps: int, gamma, stage_rounds, cohort, rounds,
    shrink=3.0,
):  # fmt: skip
    """C5."""
    u, al = clients.start()
    n = clients.n
    ref, total = u, np.zeros_like(u)
    cu, ca = np.zeros_like(u), np.zeros_like(al)
    own_u, own_a = np.zeros((n, len(u))), np.zeros((n, 1))
    for r in range(1, rounds + 1):
        rate = shrink ** -((r - 1) // stage_rounds)
        ends, old_u, old_a = [], own_u.copy(), own_a.copy()
        for i in drawn.cohort(r, cohort):
            x, y, sx, sy = u, al, np.zeros_like(u), np.zeros_like(al)
            for rows in drawn.batches(drawn.key(r, 1, i), i, local_steps):
                gx, gy = clients.grads(i, x, y, rows)
                sx, sy = sx + gx, sy + gy
                x, y = (
                    x - rate * lr * (gx + (x - ref) / gamma - old_u[i] + cu),
                    y + rate * dual_lr * (gy - old_a[i] + ca),
                )
            own_u[i], own_a[i] = sx / local_steps, sy / local_steps
            ends.append((x, y))
        u, al = np.mean([e[0] for e in ends], axis=0), np.mean([e[1] for e in ends], axis=0)
        u = clients.prox(u, rate * lr * local_steps)
        cu, ca = own_u.mean(0), own_a.mean(0)
        total = total + u
        if r % stage_rounds == 0:
            ref, total = total / stage_rounds, np.zeros_like(u)
    return u, al


def fednest(clients, drawn, *, lr, dual_lr, local_steps: int, inner_rounds, cohort, rounds):
    """C6, steps divided by tau."""
    u, al = clients.start()
    for r in range(1, rounds + 1):
        hub_keys = jax.random.split(draws.hub_key(drawn.root, r), inner_rounds + 1)
        for k in range(inner_rounds):
            chosen = drawn.cohort_of(hub_keys[k], cohort)
            look, work = 2 * k + 1, 2 * k + 2
            q = np.mean(
                [clients.grads(i, u, al, drawn.rows(drawn.key(r, look, i), i))[1] for i in chosen],
                axis=0,
            )
            ends = []
            for i in chosen:
                y = al
                for rows in drawn.batches(drawn.key(r, work, i), i, local_steps):
                    here, there = clients.grads(i, u, y, rows)[1], clients.grads(i, u, al, rows)[1]
                    y = y + dual_lr / local_steps * (here - there + q)
                ends.append(y)
            al = np.mean(ends, axis=0)
        chosen = drawn.cohort_of(hub_keys[-1], cohort)
        look, work = 2 * inner_rounds + 1, 2 * inner_rounds + 2
        h = np.mean(
            [clients.grads(i, u, al, drawn.rows(drawn.key(r, look, i), i))[0] for i in chosen],
            axis=0,
        )
        ends = []
        for i in chosen:
            x = u
            for rows in drawn.batches(drawn.key(r, work, i), i, local_steps):
                here, there = clients.grads(i, x, al, rows)[0], clients.grads(i, u, al, rows)[0]
                x = x - lr / local_steps * (here - there + h)
            ends.append(x)
        u = clients.prox(np.mean(ends, axis=0), lr)
    return u, al
