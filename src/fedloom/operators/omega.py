"""Wright's omega function: the w > 0 with w + log w = x, for any real x.

It is Lambert's W of exp(x) where exp(x) itself would overflow, and in proximal maps of logarithms
of sums of exponentials it says how far an entry moves: z + exp(z - a) = v has the root
z = v - omega(v - a).
"""

import jax.numpy as jnp

from fedloom.types import Array

_SMALL = -40.0  # below it omega is exp(x) in double precision, to the last bit


def wright_omega(x: Array) -> Array:
    """The root w of w + log w = x, entry by entry.

    A first guess, and then twice the iteration of Fritsch, Shafer and Crowley (1973), of which each
    has four times as many digits right as the one before.

    Args:
        x: Finite real numbers.
    """
    inner = jnp.maximum(x, _SMALL)  # whose omega has a logarithm
    small, large = jnp.exp(jnp.minimum(inner, 0)), jnp.maximum(inner, 2)
    near = jnp.clip(inner, -1, 3) - 1
    w = jnp.where(inner < -1, small / (1 + small), 1 + near / 2 + near**2 / 16)
    w = jnp.where(inner > 3, large - jnp.log(large), w)
    for _ in range(2):
        left = inner - w - jnp.log(w)
        part = left / (1 + w)
        # Divided by (1 + w)^2 throughout, which overflows.
        common, bent = 2 * (1 + 2 * part / 3), part / (1 + w)
        w = w * (1 + part * (common - bent) / (common - 2 * bent))
    return jnp.where(x < _SMALL, jnp.exp(jnp.minimum(x, 0)), w)
