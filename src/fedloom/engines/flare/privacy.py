"""What a site does to a reply before it leaves: scale it down, add noise that nobody can redraw."""

import secrets
from typing import Any

import jax
import numpy as np

Tree = Any


def protect(
    reply: Tree, clip: float | None, noise: float | None, source: np.random.Generator | None = None
) -> Tree:
    """The reply with a norm of at most `clip`, plus noise of deviation `noise * clip`.

    The norm is that of all floating point numbers of the reply together; whole numbers travel as
    they are. The noise is drawn from the operating system's entropy and not from the run's seed,
    which the hub knows and could use to take the noise off again.
    """
    if clip is None:
        return reply
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(reply)]
    floating = [np.issubdtype(leaf.dtype, np.floating) for leaf in leaves]
    numbers = [leaf for leaf, yes in zip(leaves, floating, strict=True) if yes]
    norm = float(np.sqrt(sum(float(np.sum(leaf.astype(np.float64) ** 2)) for leaf in numbers)))
    factor = min(1.0, clip / norm) if norm > 0 else 1.0
    source = source or np.random.default_rng(secrets.randbits(256))

    def changed(leaf: np.ndarray) -> np.ndarray:
        scaled = leaf.astype(np.float64) * factor
        if noise is not None:
            scaled = scaled + source.normal(0, noise * clip, leaf.shape)
        return np.asarray(scaled, leaf.dtype)

    out = [changed(leaf) if yes else leaf for leaf, yes in zip(leaves, floating, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(reply), out)
