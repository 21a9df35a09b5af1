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


def apfl(clients, draws, *, lr, personal_lr, alpha, alpha_lr, steps, rounds, cohort):
    """Deng et al. 2020, Algorithm 1, with alpha moved once a round on the first batch.

    Returns w, and of those who took part the own models and their shares.
    """
    w, v, shares = np.zeros(clients.d), {}, {}
    for r in range(1, rounds + 1):
        sent = []
        for i in draws.cohort(r, cohort):
            batches = draws.batches(r, 1, i, steps)
            w_i, v_i, share = w.copy(), v.get(i, w), shares.get(i, alpha)
            slope = clients.grad(i, share * v_i + (1 - share) * w_i, batches[0])
            share = np.clip(share - alpha_lr * (v_i - w_i) @ slope, 0, 1)
            for batch in batches:
                own = share * clients.grad(i, share * v_i + (1 - share) * w_i, batch)
                w_i = w_i - lr * clients.grad(i, w_i, batch)
                v_i = v_i - personal_lr * own
            v[i], shares[i] = v_i, share
            sent.append(w_i)
        w = np.mean(sent, axis=0)
    return w, v, shares


def fedper(net, draws, w, heads, own, *, lr, steps, rounds, cohort):
    """Arivazhagan et al. 2019; `own` says of each coordinate whether it is the client's.

    With norms as what is own, it is Algorithm 1 of Li et al. 2021 (FedBN). Returns the hub's model,
    of which the own coordinates stay, and the clients' own ones.
    """
    w, heads = w.copy(), [h.copy() for h in heads]
    for r in range(1, rounds + 1):
        bodies = []
        for i in draws.cohort(r, cohort):
            w_i = w.copy()
            w_i[own] = heads[i]
            for batch in draws.batches(r, 1, i, steps):
                w_i = w_i - lr * net.grad(i, w_i, batch)
            heads[i] = w_i[own]
            bodies.append(w_i[~own])
        w[~own] = np.mean(bodies, axis=0)
    return w, heads


def fedrep(net, draws, batches, w, heads, own, *, lr, head_lr, rounds, cohort):
    """Collins et al. 2021, Algorithm 1; `batches(r, i)` are those of the head and of the body."""
    w, heads = w.copy(), [h.copy() for h in heads]
    for r in range(1, rounds + 1):
        bodies = []
        for i in draws.cohort(r, cohort):
            of_head, of_body = batches(r, i)
            w_i = w.copy()
            w_i[own] = heads[i]
            for batch in of_head:
                w_i[own] -= head_lr * net.grad(i, w_i, batch)[own]
            for batch in of_body:
                w_i[~own] -= lr * net.grad(i, w_i, batch)[~own]
            heads[i] = w_i[own]
            bodies.append(w_i[~own])
        w[~own] = np.mean(bodies, axis=0)
    return w, heads


class Normed:
    """softmax((x * scale + shift) W + b), as the vector (scale, shift, b, W), on clients' rows."""

    def __init__(self, net):
        self.x, self.y, self.n, self.classes, self.d = net.x, net.y, net.n, net.classes, net.d

    def grad(self, i, w, rows):
        d, k = self.d, self.classes
        scale, shift, b, flat = np.split(w, [d, 2 * d, 2 * d + k])
        x, weights = self.x[i][rows], flat.reshape(d, k)
        inputs = x * scale + shift
        scores = inputs @ weights + b
        p = np.exp(scores - scores.max(1, keepdims=True))
        e = (p / p.sum(1, keepdims=True) - np.eye(k)[self.y[i][rows]]) / len(x)
        back = e @ weights.T
        parts = [(back * x).sum(0), back.sum(0), e.sum(0), (inputs.T @ e).ravel()]
        return np.concatenate(parts)


def straight_through_step(x, c, part, slope, *, lr, centre_lr):
    """Gradients at the quantised model, applied to x as they are and to centres by their cells."""

    def cells(x):
        return np.abs(x[part][:, None] - c[None, :]).argmin(1)

    def quantised(x):
        out = x.copy()
        out[part] = c[cells(x)]
        return out

    x = x - lr * slope(quantised(x))
    g, cell = slope(quantised(x))[part], cells(x)
    return x, np.sort(c - centre_lr * np.array([g[cell == k].sum() for k in range(len(c))]))


def lsq_step(x, s, part, slope, *, bits, lr, centre_lr):
    """Esser et al. 2020, equations (1) to (5), for weights with the step s."""
    q, p = 2 ** (bits - 1), 2 ** (bits - 1) - 1

    def quantised(x):
        out = x.copy()
        out[part] = s * np.rint(np.clip(x[part] / s, -q, p))
        return out

    g, ratio = slope(quantised(x)), x[part] / s
    g[part] *= (ratio > -q) & (ratio < p)
    x = x - lr * g
    ratio = x[part] / s
    d = np.where(ratio <= -q, -q, np.where(ratio >= p, p, np.rint(ratio) - ratio))
    return x, s - centre_lr * (d @ slope(quantised(x))[part]) / np.sqrt(len(ratio) * p)
