"""Type names that the whole library uses.

Inside a compiled program all arrays are JAX's. Outside there are NumPy's too: data are read,
divided and kept as NumPy arrays, and a cohort of everyone stays one, so that an engine sees before
a program runs who is asked. Containers that are used on both sides are annotated `Held`: an editor
completes what both kinds have, arithmetic and `jnp` functions take both, and `jnp.asarray` turns
one into an `Array` for JAX's own methods, such as `.at`.
"""

from typing import Any, TypeAlias

import jax
import numpy as np

Array: TypeAlias = jax.Array
Held: TypeAlias = jax.Array | np.ndarray
# A hyper-parameter: a float as a user wrote it, an array inside a compiled program, where fields of
# a method are leaves so that a new number needs no new program.
Scalar: TypeAlias = float | jax.Array
# The state of a client that keeps none, and an empty message.
Nothing: TypeAlias = tuple[()]
# A pytree of arrays: NumPy's or JAX's, or shapes that stand for them. Its structure is known when
# it is made, not to a type checker, so that no type says more than Any.
Tree: TypeAlias = Any
