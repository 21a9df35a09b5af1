"""Names for what travels through the whole library."""

from typing import Any, TypeAlias

import jax

Array: TypeAlias = jax.Array
Tree: TypeAlias = Any  # a pytree of arrays: NumPy's or JAX's, or shapes that stand for them
