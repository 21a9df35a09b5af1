"""SAGA for saddle problems: linear convergence on batches, at the price of a gradient a row.

Palaniappan, Bach. Stochastic variance reduction methods for saddle-point problems. NeurIPS 2016.

With lam and gam the moduli of r in w and y, l rows and batches of m rows:

    b_j(w, y) = (grad_w r_j - lam w, -grad_y r_j - gam y),  so that  T = mean_j b_j + (lam w, gam y)
    start     g_j = b_j(w, y) for all rows,  G = mean_j g_j
    step      J = m distinct rows;  h_j = b_j(w, y) for j in J
              D = G + (1/m) sum_J (h_j - g_j)
              w <- (w - (sigma / lam) D_w) / (1 + sigma)
              y <- (y - (sigma / gam) D_y) / (1 + sigma)
              G <- G + (1/l) sum_J (h_j - g_j);   g_j <- h_j
    sigma     1 / max(3 l / (2 m) - 1,  L^2 + 3 Lbar^2 / m)

L is the Lipschitz constant of mean_j b_j and Lbar^2 the mean square of those of the b_j, in the
metric scaled by 1/sqrt(lam) and 1/sqrt(gam). Without a stated sigma they are taken from Jacobians
at the start, which is exact for a quadratic.

Differs from the listing in FFMDR's paper: the sign of the y-block (it diverges from the saddle as
printed), no division by m in the update of G (wrong for m > 1), and sigma.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.minimax.inner import Solver, accuracy_param, epochs_param
from fedloom.algorithms.minimax.point import PrimalDual
from fedloom.algorithms.minimax.resolvent import Resolvent, Solved, by_epochs
from fedloom.local import repeat
from fedloom.parameters import param, parametrised, positive
from fedloom.types import Array


class _Memory(NamedTuple):
    """Where the solver stands, and what it remembers of every row."""

    point: PrimalDual
    table: PrimalDual  # g_j, a row for each of the client's rows
    mean: PrimalDual  # G


@parametrised
class SAGA(Solver):
    """Variance-reduced steps on single rows; needs memory for a gradient of every row."""

    sigma: float | None = param(
        positive.or_none("from Lipschitz constants at the start"), "step size", default=None
    )
    epochs: int = epochs_param()
    accuracy: float | None = accuracy_param()

    def solve(self, r: Resolvent, start: PrimalDual, key: Array) -> Solved:
        """A pass is as many steps as there are batches."""
        held, moduli = r.f.held, PrimalDual(r.convexity, r.concavity)
        count = held.longest if r.f.batch_size is None else min(r.f.batch_size, held.longest)
        taken = jnp.arange(count) < held.size  # a client may have fewer rows than a batch
        batch = jnp.minimum(count, held.size)
        rows = jnp.arange(held.longest)
        sigma = self._sigma(r, start, moduli, batch) if self.sigma is None else self.sigma

        def operators(v: PrimalDual, places: Array) -> PrimalDual:
            """The b_j of some rows."""
            return jax.tree.map(lambda t, m, p: t - m * p, r.row_operators(v, places), moduli, v)

        def step(memory: _Memory, key: Array) -> _Memory:
            v, table, mean = memory
            places = draws.distinct(key, held.domain, count)
            fresh = operators(v, places)
            change = jax.tree.map(
                lambda h, g: jnp.where(taken[:, None], h - g[places], 0), fresh, table
            )
            direction = jax.tree.map(lambda g, c: g + c.sum(0) / batch, mean, change)
            v = jax.tree.map(
                lambda p, d, m: (p - sigma / m * d) / (1 + sigma), v, direction, moduli
            )
            mean = jax.tree.map(lambda g, c: g + c.sum(0) / held.size, mean, change)
            # A place outside the table is not written to.
            slots = jnp.where(taken, places, held.longest)
            table = jax.tree.map(lambda g, h: g.at[slots].set(h, mode="drop"), table, fresh)
            return _Memory(v, table, mean)

        table = operators(start, jnp.minimum(rows, held.size - 1))
        within = (rows < held.size)[:, None]
        mean = jax.tree.map(lambda g: jnp.where(within, g, 0).sum(0) / held.size, table)
        return by_epochs(
            r, _Memory(start, table, mean), start, key,
            epoch=lambda memory, key: repeat(step, memory, key, r.f.batches),
            point=lambda memory: memory.point, most=self.epochs, accuracy=self.accuracy,
        )  # fmt: skip

    def _sigma(self, r: Resolvent, start: PrimalDual, moduli: PrimalDual, batch: Array) -> Array:
        size, held = start.x.size, r.f.held
        scale = jnp.concatenate(
            jax.tree.map(lambda p, m: jnp.full(p.shape, 1 / jnp.sqrt(m)), start, moduli)
        )

        def jacobian(place: Array) -> Array:
            def of(v: Array) -> Array:
                one = r.row_operators(PrimalDual(v[:size], v[size:]), place[None])
                return jnp.concatenate([block[0] for block in one])

            # The strong part, the identity in the scaled metric, is not in b_j.
            whole = jax.jacfwd(of)(jnp.concatenate(start))
            return scale[:, None] * whole * scale - jnp.eye(scale.size)

        def add(totals: tuple[Array, Array], place: Array) -> tuple[tuple[Array, Array], None]:
            one = jnp.where(place < held.size, jacobian(jnp.minimum(place, held.size - 1)), 0)
            # The Frobenius norm bounds the spectral norm, and costs no decomposition a row.
            return (totals[0] + one, totals[1] + (one * one).sum()), None

        none = (jnp.zeros((scale.size, scale.size), scale.dtype), jnp.zeros((), scale.dtype))
        (total, squares), _ = jax.lax.scan(add, none, jnp.arange(held.longest))
        whole = jnp.linalg.norm(total / held.size, 2) ** 2
        single = squares / held.size
        return 1 / jnp.maximum(1.5 * held.size / batch - 1, whole + 3 * single / batch)
