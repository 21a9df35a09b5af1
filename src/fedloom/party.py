"""What a party of a vertical federation can do with its own columns.

A client method of a vertical method holds `f` and writes A_i x_i as `f.forward(x)` and A_i'y as
`f.adjoint(y)`. Shares of the model are vectors; products have the shape of the hub's scores.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedloom.errors import DataError, ParameterError
from fedloom.layout import Layout
from fedloom.objective import prox
from fedloom.operators.blocks import Block
from fedloom.oracles import PartyOracle
from fedloom.rows import some_rows
from fedloom.types import Array, Scalar

_POWER_STEPS = 100


class PartyObjective:
    """The oracles of one party: products with its columns, and its part r_i of the penalty."""

    def __init__(
        self,
        problem: Any,
        layout: Layout,
        block: Block,
        classes: int,
        batch_size: int | None = None,
    ):
        self.problem = problem
        self.layout = layout
        self.block = block
        self.classes = classes
        self.batch_size = batch_size

    @property
    def rows(self) -> int:
        """How many people there are."""
        return self.block.shape[0]

    @property
    def linear(self) -> bool:
        """Whether the party has no network, so that its products are linear in its share."""
        return self.problem.network is None

    @property
    def fused(self) -> bool:
        """Whether the outputs of its network go into another, at the label party."""
        return self.problem.fusion is not None

    def zeros(self) -> Array:
        """The zero vector of the share's size."""
        return jnp.zeros(self.layout.size, self.layout.dtype)

    def start(self, key: Array) -> Array:
        """A fresh share: zeros, behind a random network where there is one."""
        share = self.problem.share(key, self.block.shape[1], self.classes, self.layout.dtype)
        return self.layout.ravel(share)

    def forward(self, x: Array) -> Array:
        """The product A_i x_i; with a network, of its outputs with the head, or the outputs."""
        return self.forward_on(self.block, x)

    def forward_on(self, block: Block, x: Array) -> Array:
        """The same on other rows, such as test rows."""
        share = self.layout.unravel(x)
        if self.linear:
            return block.forward(share)
        outputs = self.problem.network.apply(share["network"], block.matrix())
        if outputs.shape[1:] != (self.problem.embedding,):
            raise DataError(
                f"Vertical: network must have {self.problem.embedding} outputs for a row, as many "
                f"as embedding says; {self.problem.network!r} has {outputs.shape[1:]}. Let the two "
                f"be the same."
            )
        return outputs if self.fused else outputs @ share["head"]

    def batch_rows(self, key: Array) -> Array | slice:
        """The rows of the batch that a key draws; the hub draws the same from the same key."""
        return some_rows(key, self.rows, self.batch_size)

    def on_rows(self, rows: Array | slice) -> "PartyObjective":
        """The oracles of some rows alone."""
        return PartyObjective(self.problem, self.layout, self.block.some_rows(rows), self.classes)

    def rows_loss(self, fusion: Array, parts: Array, labels: Array) -> Array:
        """An estimate of the loss of all rows, from parts and labels of some."""
        return self.problem.rows_loss(fusion, parts, labels, self.rows, self.classes)

    def adjoint(self, y: Array) -> Array:
        """The product A_i'y."""
        if not self.linear:
            raise ParameterError(
                "this method is for linear models, and the parties have networks. "
                "Use EGVFLNonlinear, or remove the network from the problem."
            )
        return self.block.adjoint(y).reshape(-1)

    def pull(self, x: Array, y: Array) -> Array:
        """The gradient of y'A_i(x) at x: the adjoint, or for a network its Jacobian's."""
        if self.linear:
            return self.adjoint(y)
        return jax.vjp(self.forward, x)[1](y)[0]

    def grad_r(self, x: Array) -> Array:
        """The gradient of (l2 / 2) |x|^2; with a network that has a head, of the head only."""
        if self.linear or self.fused:
            return self.problem.l2 * x
        share = self.layout.unravel(x)
        nothing = jax.tree.map(jnp.zeros_like, share)
        return self.layout.ravel(nothing | {"head": self.problem.l2 * share["head"]})

    def prox(self, v: Array, step: Scalar) -> Array:
        """The proximal map of step * r_i, with both parts of r_i: (l2 / 2) |x|^2 and g."""
        shrink = 1 + step * self.problem.l2
        return prox(self.problem.regulariser, self.layout, v / shrink, step / shrink)

    def penalty(self, x: Array) -> Array:
        """The value (l2 / 2) |x|^2."""
        share = self.layout.unravel(x)
        head = x if self.fused else share if self.linear else share["head"]
        return 0.5 * self.problem.l2 * (head**2).sum()

    def gram(self) -> Array:
        """The matrix A_i'A_i."""
        return self.block.gram()

    def largest_eigenvalue(self, key: Array) -> Array:
        """lam_max(A_i'A_i), by power iteration at the party."""

        def body(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            v, _ = state
            image = self.block.adjoint(self.block.forward(v))
            norm = jnp.linalg.norm(image)
            return image / jnp.where(norm > 0, norm, 1), norm

        v = jax.random.normal(key, (self.block.shape[1],), self.layout.dtype)
        first = (v / jnp.linalg.norm(v), jnp.zeros((), self.layout.dtype))
        return jax.lax.fori_loop(0, _POWER_STEPS, body, first)[1]


_PROMISE: type[PartyOracle] = PartyObjective  # what authors are promised, checked by mypy
