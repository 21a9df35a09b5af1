"""The listings of split training in plain NumPy, for the squared loss summed over rows.

Party i has columns A_i. Its part is A_i x_i, or an embedding tanh(A_i x_i) with a matrix x_i; the
scores are the sum of the parts, or tanh(H u) v of the embeddings H side by side. Only the draws of
batches are shared with the library.
"""

import math

import numpy as np

from fedloom import draws
from papers.vertical import distinct, keep


class Summed:
    """No networks: parts are summed, and the hub has nothing to train."""

    def __init__(self, data):
        self.data = data

    def start(self):
        return [], self.data.starts()

    def part(self, i, x, rows):
        return self.data.blocks[i][rows] @ x

    def pull(self, i, x, rows, slope):
        return self.data.blocks[i][rows].T @ slope

    def scores(self, w, parts):
        return sum(parts)

    def slopes(self, w, parts, slope):
        return [], [slope for _ in parts]


class Fused(Summed):
    """Embeddings of two numbers a row, and a fusion network with three hidden units."""

    def start(self):
        size = 2 * self.data.n
        u = np.linspace(-1, 1, 3 * size).reshape(size, 3)
        return [u, np.linspace(0.5, 1, 3)], [
            np.linspace(-1, 0.8, 2 * width).reshape(width, 2) for width in self.data.widths
        ]

    def part(self, i, x, rows):
        return np.tanh(super().part(i, x, rows))

    def pull(self, i, x, rows, slope):
        return super().pull(i, x, rows, (1 - self.part(i, x, rows) ** 2) * slope)

    def scores(self, w, parts):
        u, v = w
        return np.tanh(np.concatenate(parts, axis=1) @ u) @ v

    def slopes(self, w, parts, slope):
        u, v = w
        side_by_side = np.concatenate(parts, axis=1)
        hidden = np.tanh(side_by_side @ u)
        inner = (1 - hidden**2) * np.outer(slope, v)
        return [side_by_side.T @ inner, hidden.T @ slope], np.split(inner @ u.T, len(parts), axis=1)


class Batches:
    """The rows of each round's batch, and the loss on them."""

    def __init__(self, world, batch, seed):
        self.world, self.data, self.batch = world, world.data, batch
        self.root = draws.key(seed)

    def rows(self, round):
        if self.batch is None or self.batch >= self.data.s:
            return np.arange(self.data.s)
        return distinct(draws.hub_key(self.root, round), self.data.s, self.batch)

    def slopes(self, w, parts, rows):
        """In the fusion network, with its penalty, and in the parts."""
        error = self.world.scores(w, parts) - self.data.b[rows]
        own, of_parts = self.world.slopes(w, parts, self.data.s / len(rows) * error)
        return [g + self.data.l2 * a for g, a in zip(own, w, strict=True)], of_parts

    def step(self, i, x, rows, slope, lr):
        return x - lr * (self.world.pull(i, x, rows, slope) + self.data.l2 * x)


def moved(w, own, lr):
    return [a - lr * g for a, g in zip(w, own, strict=True)]


def top(v, per_cent):
    flat, count = v.ravel(), math.ceil(per_cent * v.size / 100)
    return keep(flat, np.argsort(-np.abs(flat))[:count]).reshape(v.shape)


def split_training(world, lr, rounds, batch, seed=0):
    batches, (w, xs) = Batches(world, batch, seed), world.start()
    for t in range(1, rounds + 1):
        rows = batches.rows(t)
        parts = [world.part(i, x, rows) for i, x in enumerate(xs)]
        own, of_parts = batches.slopes(w, parts, rows)
        xs = [batches.step(i, x, rows, g, lr) for i, (x, g) in enumerate(zip(xs, of_parts))]  # noqa: B905
        w = moved(w, own, lr)
    return w, xs


def ef_vfl(world, lr, rounds, batch, per_cent, seed=0):
    batches, (w, xs) = Batches(world, batch, seed), world.start()
    everything = np.arange(world.data.s)
    held = [np.zeros_like(world.part(i, x, everything)) for i, x in enumerate(xs)]
    for t in range(1, rounds + 1):
        rows = batches.rows(t)
        for i, x in enumerate(xs):
            held[i][rows] += top(world.part(i, x, rows) - held[i][rows], per_cent)
        own, of_parts = batches.slopes(w, [g[rows] for g in held], rows)
        xs = [batches.step(i, x, rows, g, lr) for i, (x, g) in enumerate(zip(xs, of_parts))]  # noqa: B905
        w = moved(w, own, lr)
    return w, xs


def cvfl(world, lr, rounds, batch, per_cent, steps, seed=0):
    batches, (w, xs) = Batches(world, batch, seed), world.start()
    for t in range(1, rounds + 1):
        rows = batches.rows(t)
        seen = [top(world.part(i, x, rows), per_cent) for i, x in enumerate(xs)]
        for i, x in enumerate(xs):
            for _ in range(steps):
                mixed = [*seen[:i], world.part(i, x, rows), *seen[i + 1 :]]
                x = batches.step(i, x, rows, batches.slopes(w, mixed, rows)[1][i], lr)
            xs[i] = x
        for _ in range(steps):
            w = moved(w, batches.slopes(w, seen, rows)[0], lr)
    return w, xs
