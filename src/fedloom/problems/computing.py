"""How a network is computed: in which numbers, and what of it is kept for its gradient.

Its arrays stay at the run's precision, and so do steps and averages: only products are rounded.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedloom.parameters import flag, one_of, param
from fedloom.types import Array, Held, Tree


def compute_param() -> Any:
    """The field for the numbers in which a network is computed."""
    rule = one_of("bfloat16").or_none("the run's precision")
    return param(rule, "numbers in which the network is computed", default=None)


def rematerialise_param() -> Any:
    """The field for what is kept for a gradient."""
    return param(
        flag,
        "whether the gradient computes again all but the matrix products, which takes less memory",
        default=False,
    )


def computed(
    call: Callable[[Tree, Held], Array],
    arrays: Tree,
    x: Held,
    compute: str | None,
    rematerialise: bool,
) -> Array:
    """The outputs of a network for rows x.

    Args:
        call: The network, a function of its arrays and of rows.
        arrays: Its arrays.
        x: The rows.
        compute: The numbers to compute in; None: those of the arrays.
        rematerialise: Whether a gradient keeps matrix products only.
    """

    def run(arrays: Tree, x: Held) -> Array:
        if compute is None:
            return call(arrays, x)
        precision = jnp.result_type(*jax.tree.leaves(arrays))
        return call(_as(arrays, compute), _as(x, compute)).astype(precision)

    if rematerialise:
        run = jax.checkpoint(run, policy=jax.checkpoint_policies.dots_saveable)
    return run(arrays, x)


def _as(tree: Tree, dtype: str) -> Tree:
    """The floating-point numbers of a tree in another type; symbols and marks stay."""

    def cast(leaf: Held) -> Held:
        return jnp.asarray(leaf, dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, tree)
