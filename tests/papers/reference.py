"""What the NumPy transcriptions stand on: logistic loss by hand, and the draws of a run.

The draws are the only thing that a transcription shares with the library. Everything else, losses,
gradients and the listings themselves, is written again in plain NumPy.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import cohorts, draws

_distinct = jax.jit(draws.distinct, static_argnames="count")


@functools.partial(jax.jit, static_argnames=("count", "steps"))
def _batches(root, round, exchange, client, domain, count, steps):
    """The rows that a client draws in each step, in one program: calls one by one take longer."""
    key = draws.client_key(root, round, exchange, client)
    rows = lambda step: draws.distinct(draws.nth(key, step), domain, count)  # noqa: E731
    return jax.vmap(rows)(jnp.arange(steps))


class LogisticClients:
    """Clients of a logistic regression with the penalty (l2 / 2) |w|^2, in NumPy."""

    def __init__(self, sizes=(6, 9, 6, 9), d=3, l2=0.1, seed=7):
        rng = np.random.default_rng(seed)
        self.l2 = l2
        self.x = [rng.normal(i / 2, 1, (m, d)) for i, m in enumerate(sizes)]
        self.y = [rng.integers(0, 2, m) for m in sizes]
        self.n, self.d = len(sizes), d

    def value(self, i, w, rows=slice(None)):
        sign = np.where(self.y[i][rows] > 0, 1.0, -1.0)
        margin = sign * (self.x[i][rows] @ w)
        return np.mean(np.log1p(np.exp(-margin))) + 0.5 * self.l2 * w @ w

    def grad(self, i, w, rows=slice(None)):
        x, sign = self.x[i][rows], np.where(self.y[i][rows] > 0, 1.0, -1.0)
        slope = -sign / (1 + np.exp(sign * (x @ w)))
        return x.T @ slope / len(slope) + self.l2 * w

    def pooled_grad(self, w, weights=None):
        weights = np.full(self.n, 1 / self.n) if weights is None else weights
        return sum(a * self.grad(i, w) for i, a in enumerate(weights))

    def parts(self):
        return list(zip(self.x, self.y, strict=True))


class Draws:
    """The random choices of a run: who takes part, and which rows make a batch."""

    def __init__(self, clients, batch_size, seed=0):
        self.sizes = [len(y) for y in clients.y]
        self.batch_size = batch_size
        self.root = draws.key(seed)

    def hub_key(self, round):
        return draws.hub_key(self.root, round)

    def cohort(self, round, size):
        return np.asarray(cohorts.uniform(self.hub_key(round), len(self.sizes), size).ids).tolist()

    def rows(self, key, client):
        """The rows that a key draws at a client."""
        if self.batch_size is None:
            return np.arange(self.sizes[client])
        count = min(self.batch_size, self.sizes[client])
        return np.asarray(_distinct(key, draws.domain(self.sizes[client]), count))

    def batch(self, round, exchange, client):
        """The rows that a client draws with the key of an exchange itself."""
        return self.rows(draws.client_key(self.root, round, exchange, client), client)

    def batches(self, round, exchange, client, steps):
        """The rows of each local step."""
        size = self.sizes[client]
        if self.batch_size is None:
            return [np.arange(size)] * steps
        count, domain = min(self.batch_size, size), draws.domain(size)
        # Numbers of one kind, so that a program is made once for each size.
        path = (np.uint32(number) for number in (round, exchange, client))
        return list(np.asarray(_batches(self.root, *path, domain, count, steps)))
