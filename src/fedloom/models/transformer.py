"""A small transformer that reads a text and gives one score for each class."""

import itertools
import math

import jax
import jax.numpy as jnp

from fedloom.errors import DataError, ParameterError
from fedloom.models import layers
from fedloom.models.base import Model
from fedloom.models.dropout import drop, dropout_param, keys_of
from fedloom.parameters import at_least, param, parametrised
from fedloom.rows import Drawn, Spec
from fedloom.types import Array, Held, Tree

_FLOOR = 1e-5  # added to the variance in a norm
_WIDER = 4  # the hidden layer of a block, over the width of the block


@parametrised
class Transformer(Model):
    """Embedding, places, blocks of attention with the norm first, and the mean over the words.

    Rows are numbers of words or bytes. 0 is padding: nothing attends to it, and it is left out of
    the mean.

        h = words[x] + places
        h <- h + attention(norm(h)),  h <- h + gelu(norm(h) U + b) V + c    in each block
        scores = mean(norm(h)) W + d

    Attention looks both ways. Dropout acts on what goes into the first block, and on what
    attention and the dense layers add in each block.
    """

    vocabulary: int = param(
        at_least(2), "number of different words or bytes, padding included", default=20_000
    )
    width: int = param(at_least(1), "length of the vector of a word", default=64)
    heads: int = param(at_least(1), "heads of attention, which divide the width", default=4)
    blocks: int = param(at_least(1), "blocks of attention", default=2)
    dropout: float = dropout_param("the numbers into the blocks, and that each block adds")

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ParameterError(
                f"Transformer: width must be a multiple of heads = {self.heads}; got {self.width}. "
                f"Try width = {-(-self.width // self.heads) * self.heads}."
            )

    def init(self, key: Array, spec: Spec) -> Tree:
        """Normal vectors of words and places, Glorot-uniform weights, norms that scale by one."""
        if len(spec.features) != 1:
            raise DataError(
                f"Transformer needs rows of word numbers; rows have shape {spec.features}. "
                f"Load a text, or use another network."
            )
        word_key, place_key, head_key, *block_keys = jax.random.split(key, 3 + self.blocks)
        dtype, width = spec.dtype, self.width

        def vectors(key: Array, count: int) -> dict[str, Array]:
            return {"weights": jax.random.normal(key, (count, width), dtype)}

        def dense(key: Array, inputs: int, outputs: int) -> dict[str, Array]:
            return layers.dense_init(key, inputs, outputs, dtype, "glorot")

        def norm() -> dict[str, Array]:
            return {"scale": jnp.ones(width, dtype), "bias": jnp.zeros(width, dtype)}

        def block(key: Array) -> Tree:
            look, join, widen, narrow = jax.random.split(key, 4)
            return {
                "attention": {
                    "norm": norm(),
                    "input": dense(look, width, 3 * width),
                    "output": dense(join, width, width),
                },
                "dense": {
                    "norm": norm(),
                    "input": dense(widen, width, _WIDER * width),
                    "output": dense(narrow, _WIDER * width, width),
                },
            }

        return {
            "words": vectors(word_key, self.vocabulary),
            "places": vectors(place_key, *spec.features),
            "blocks": [block(block_key) for block_key in block_keys],
            "norm": norm(),
            "output": dense(head_key, width, spec.classes or 1),
        }

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class, or one value."""
        return self._scores(arrays, x, None)

    def train_apply(self, arrays: Tree, x: Held, drawn: Drawn) -> Array:
        """The same, with dropout."""
        return self._scores(arrays, x, keys_of(self.dropout, drawn.key, len(x)))

    @property
    def trains_otherwise(self) -> bool:
        """True with dropout."""
        return self.dropout > 0

    def _scores(self, arrays: Tree, x: Held, keys: Array | None) -> Array:
        layers.need_symbols("Transformer", x)
        numbers = itertools.count()

        def thinned(h: Array) -> Array:
            return drop(h, self.dropout, keys, next(numbers))

        there = x > 0
        h = thinned(arrays["words"]["weights"][x] + arrays["places"]["weights"])
        for block in arrays["blocks"]:
            h = h + thinned(self._attention(block["attention"], h, there))
            part = block["dense"]
            wide = jax.nn.gelu(layers.dense(part["input"], _norm(part["norm"], h)), False)
            h = h + thinned(layers.dense(part["output"], wide))
        counts = there.astype(h.dtype)
        total = (_norm(arrays["norm"], h) * counts[..., None]).sum(1)
        mean = total / jnp.maximum(counts.sum(1, keepdims=True), 1)
        return layers.dense(arrays["output"], mean)

    def _attention(self, arrays: Tree, h: Array, there: Held) -> Array:
        rows, length, width = h.shape
        each = width // self.heads
        looks = layers.dense(arrays["input"], _norm(arrays["norm"], h))
        query, key, value = jnp.moveaxis(looks.reshape(rows, length, 3, self.heads, each), 2, 0)
        scores = jnp.einsum("rqhe,rkhe->rhqk", query, key) / math.sqrt(each)
        # Large and finite: a text of padding alone has no word, and no nan in its gradient either.
        scores = jnp.where(there[:, None, None], scores, jnp.finfo(scores.dtype).min / 2)
        mixed = jnp.einsum("rhqk,rkhe->rqhe", jax.nn.softmax(scores), value)
        return layers.dense(arrays["output"], mixed.reshape(rows, length, width))


def _norm(arrays: dict[str, Array], h: Array) -> Array:
    """Each vector with mean 0 and variance 1, then scaled and moved."""
    centred = h - h.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + _FLOOR) * arrays["scale"] + arrays["bias"]
