"""Names for what travels through the whole library.

Inside a compiled program there is one kind of array, JAX's. Around it there are NumPy's too: data
are read, divided and kept as NumPy arrays, and a cohort of everybody stays one, so that an engine
can see before a program runs who is asked. Containers that live on both sides say `Held`: an
editor completes what both kinds have, `jnp` functions and arithmetic take both, and `jnp.asarray`
makes an `Array` of it where JAX's own methods, such as `.at`, are wanted.
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
