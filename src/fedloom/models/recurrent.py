"""A recurrent network that predicts, at every place of a text, the symbol that follows."""

import math

import jax
import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models import layers
from fedloom.models.base import Model
from fedloom.parameters import at_least, param, parametrised
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree


@parametrised
class GRU(Model):
    """Embedding, one layer of gated recurrent units, and a dense layer over the symbols.

    Rows are symbols 0, 1, ...; labels are of the same alphabet, one for every place of a row.

        r = sigmoid(x U_r + h V_r + c_r),  z = sigmoid(x U_z + h V_z + c_z)
        n = tanh(x U_n + b_n + r * (h V_n + c_n)),  h <- (1 - z) * n + z * h

    The biases of x and of h are added up for r and z; for n, r stands between them.
    """

    embedding: int = param(at_least(1), "width of the embedding of a symbol", default=50)
    hidden: int = param(at_least(1), "number of recurrent units", default=50)

    def init(self, key: Array, spec: Spec) -> Tree:
        """Normal embeddings; recurrent weights uniform within 1 / sqrt(hidden); zero biases."""
        if len(spec.features) != 1 or spec.classes < 2:
            raise DataError(
                f"GRU needs rows of symbols and labels of classes; rows have shape "
                f"{spec.features}, and there are {spec.classes} classes. Load a text, such as "
                f"shakespeare."
            )
        embedding_key, in_key, state_key, out_key = jax.random.split(key, 4)
        bound = 1 / math.sqrt(self.hidden)

        def gates(key: Array, inputs: int) -> dict[str, Array]:
            shape = (inputs, 3 * self.hidden)
            weights = jax.random.uniform(key, shape, spec.dtype, -bound, bound)
            return {"weights": weights, "bias": jnp.zeros(3 * self.hidden, spec.dtype)}

        shape = (spec.classes, self.embedding)
        return {
            "embedding": {"weights": jax.random.normal(embedding_key, shape, spec.dtype)},
            "input": gates(in_key, self.embedding),
            "state": gates(state_key, self.hidden),
            "output": layers.dense_init(out_key, self.hidden, spec.classes, spec.dtype),
        }

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each symbol, at every place of every row."""
        layers.need_symbols("GRU", x)
        # Input products of all places at once: the loop keeps only what depends on the state.
        symbols = layers.dense(arrays["input"], arrays["embedding"]["weights"])[x]
        start = jnp.zeros((x.shape[0], self.hidden), symbols.dtype)

        def step(h: Array, inputs: Array) -> tuple[Array, Array]:
            r_in, z_in, n_in = jnp.split(inputs, 3, axis=-1)
            r_state, z_state, n_state = jnp.split(layers.dense(arrays["state"], h), 3, axis=-1)
            r, z = jax.nn.sigmoid(r_in + r_state), jax.nn.sigmoid(z_in + z_state)
            h = (1 - z) * jnp.tanh(n_in + r * n_state) + z * h
            return h, h

        states = jax.lax.scan(step, start, jnp.swapaxes(symbols, 0, 1))[1]
        return layers.dense(arrays["output"], jnp.swapaxes(states, 0, 1))
