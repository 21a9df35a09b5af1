"""The networks of the papers, with the sizes that are stated or, where none is, chosen here.

    CNN1      conv 5x5 to 6, pool, conv 5x5 to 16, pool, dense 120, 84, classes
    CNN2      CNN1 with a third convolution, 5x5 to 32 with padding, after the second pooling
    ResNet    3x3 convolutions in 3 stages of `blocks` blocks; 3 blocks make ResNet-20
    EmbeddingBag   the mean of word vectors, then one dense layer

CNN1 and CNN2 have no padding but where stated, so rows of 32 x 32 x 3 give 400 (CNN2: 800) numbers
to the dense layers, and rows of 28 x 28 x 1 give 256 (512). The arrays of every network stand in
the order of its layers, first to last.
"""

import math

import jax
import jax.numpy as jnp

from fedloom.errors import DataError
from fedloom.models import layers
from fedloom.models.base import Model
from fedloom.models.networks import dense_stack, dense_stack_apply, image_shape
from fedloom.parameters import at_least, param, parametrised
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree

_SIDE = 5
_DENSE = (120, 84)
_CHANNELS = (6, 16)
_DEEPER = 32
_GROUP = 8  # channels that a norm takes together, at most


@parametrised
class CNN1(Model):
    """Two convolutions and three dense layers, as LeNet-5."""

    initialisation: str = layers.initialisation_param()

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh weights and biases."""
        return _lenet_init(self, key, spec, self.initialisation, deeper=False)

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class."""
        return _lenet_apply(arrays, x)


@parametrised
class CNN2(Model):
    """Three convolutions and three dense layers."""

    initialisation: str = layers.initialisation_param()

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh weights and biases."""
        return _lenet_init(self, key, spec, self.initialisation, deeper=True)

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class."""
        return _lenet_apply(arrays, x)


def _lenet_init(model: Model, key: Array, spec: Spec, how: str, *, deeper: bool) -> Tree:
    height, width, before = image_shape(model, spec)
    dense_key, *conv_keys = jax.random.split(key, 4)
    convolutions = []
    for conv_key, after in zip(conv_keys, _CHANNELS, strict=False):
        convolutions.append(layers.conv_init(conv_key, _SIDE, before, after, spec.dtype, how))
        height, width, before = (height - _SIDE + 1) // 2, (width - _SIDE + 1) // 2, after
    if deeper:
        convolutions.append(layers.conv_init(conv_keys[2], _SIDE, before, _DEEPER, spec.dtype, how))
        before = _DEEPER
    if height < 1 or width < 1:
        raise DataError(
            f"{type(model).__name__} needs images of at least 16 x 16; rows have shape "
            f"{spec.features}. Use MLP or CNN."
        )
    widths = [height * width * before, *_DENSE, spec.classes or 1]
    return {"conv": convolutions, "dense": dense_stack(dense_key, widths, spec.dtype, how)}


def _lenet_apply(arrays: Tree, x: Held) -> Array:
    for convolution in arrays["conv"][:2]:
        x = layers.conv_pool(convolution, x, _SIDE, 0)
    for convolution in arrays["conv"][2:]:
        x = jax.nn.relu(layers.conv(convolution["weights"], x, _SIDE, 2) + convolution["bias"])
    return dense_stack_apply(arrays["dense"], x.reshape(x.shape[0], -1))


@parametrised
class ResNet(Model):
    """The residual network for small images; 3 blocks a stage make ResNet-20.

    Norms are over groups of channels of one image, where the original has batch norms: a client's
    model is then a function of its arrays alone, with no running statistics. Shortcuts that change
    the shape skip pixels and pad channels with zeros (option A).
    """

    blocks: int = param(at_least(1), "blocks in each of the three stages", default=3)
    channels: int = param(at_least(1), "channels of the first stage", default=16)
    initialisation: str = layers.initialisation_param()

    @staticmethod
    def groups_of(channels: int) -> int:
        """How many groups of channels a norm has: of 8 channels, where that divides them."""
        return math.gcd(channels, max(1, channels // _GROUP))

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh weights; norms that scale by one."""
        how = self.initialisation
        _, _, before = image_shape(self, spec)
        widths = [self.channels * 2**stage for stage in range(3) for _ in range(self.blocks)]
        stem_key, head_key, *block_keys = jax.random.split(key, 2 + len(widths))
        parts = [_conv_norm(stem_key, before, self.channels, spec.dtype, how)]
        before = self.channels
        for block_key, after in zip(block_keys, widths, strict=True):
            one, two = jax.random.split(block_key)
            parts.append(_conv_norm(one, before, after, spec.dtype, how))
            parts.append(_conv_norm(two, after, after, spec.dtype, how))
            before = after
        return [*parts, layers.dense_init(head_key, before, spec.classes or 1, spec.dtype, how)]

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class."""
        stem, *inner, head = arrays
        x = jax.nn.relu(_normed(stem, x, 1))
        for number, (one, two) in enumerate(zip(inner[::2], inner[1::2], strict=True)):
            stride = 2 if number and number % self.blocks == 0 else 1
            y = _normed(two, jax.nn.relu(_normed(one, x, stride)), 1)
            short = x[:, ::stride, ::stride]
            extra = y.shape[-1] - short.shape[-1]
            short = jnp.pad(short, ((0, 0), (0, 0), (0, 0), (extra // 2, extra - extra // 2)))
            x = jax.nn.relu(y + short)
        return layers.dense(head, x.mean((1, 2)))


def _conv_norm(key: Array, inputs: int, outputs: int, dtype: str, how: str) -> dict[str, Array]:
    weights = layers.conv_init(key, 3, inputs, outputs, dtype, how)["weights"]
    return {
        "bias": jnp.zeros(outputs, dtype),
        "scale": jnp.ones(outputs, dtype),
        "weights": weights,
    }


def _normed(arrays: dict[str, Array], x: Held, stride: int) -> Array:
    x = layers.conv(arrays["weights"], x, 3, 1, stride)
    return layers.group_norm(x, ResNet.groups_of(x.shape[-1])) * arrays["scale"] + arrays["bias"]


@parametrised
class EmbeddingBag(Model):
    """The mean of the vectors of a text's words, and a dense layer. Word 0 is padding."""

    vocabulary: int = param(
        at_least(2), "number of different words or bytes, padding included", default=20_000
    )
    width: int = param(at_least(1), "length of a word's vector", default=64)

    def init(self, key: Array, spec: Spec) -> Tree:
        """Uniform from -0.5 to 0.5, and zero biases."""
        if len(spec.features) != 1:
            raise DataError(
                f"EmbeddingBag needs rows of word numbers; rows have shape {spec.features}. "
                f"Load a text, or use another network."
            )
        words, dense = jax.random.split(key)

        def spread(key: Array, shape: tuple[int, ...]) -> Array:
            return jax.random.uniform(key, shape, spec.dtype, -0.5, 0.5)

        classes = spec.classes or 1
        return [
            {"weights": spread(words, (self.vocabulary, self.width))},
            {
                "bias": jnp.zeros(classes, spec.dtype),
                "weights": spread(dense, (self.width, classes)),
            },
        ]

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class."""
        table, dense = arrays
        layers.need_symbols("EmbeddingBag", x)
        counts = (x > 0).astype(table["weights"].dtype)
        total = (table["weights"][x] * counts[..., None]).sum(1)
        return layers.dense(dense, total / jnp.maximum(counts.sum(1, keepdims=True), 1))
