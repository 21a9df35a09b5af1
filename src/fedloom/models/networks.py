"""Small networks: a multilayer perceptron and a convolutional network."""

import itertools
import math

import jax

from fedloom.errors import DataError
from fedloom.models import layers
from fedloom.models.base import Model
from fedloom.models.dropout import drop, dropout_param, keys_of
from fedloom.parameters import Rule, at_least, param, parametrised
from fedloom.rows import Drawn, Spec
from fedloom.types import Array, Held, Tree

_widths = Rule(
    lambda v: isinstance(v, tuple) and all(at_least(1).holds(width) for width in v),
    "a list of whole numbers >= 1",
    [50, 50],
)


def dense_stack(
    key: Array, widths: list[int], dtype: str, initialisation: str
) -> list[dict[str, Array]]:
    """Dense layers from each width to the next."""
    keys = jax.random.split(key, len(widths) - 1)
    pairs = zip(keys, itertools.pairwise(widths), strict=True)
    return [layers.dense_init(k, a, b, dtype, initialisation) for k, (a, b) in pairs]


def dense_stack_apply(
    stack: list[dict[str, Array]], x: Held, rate: float = 0, keys: Array | None = None
) -> Array:
    """Dense layers with relu between them, and dropout after each relu where there are keys."""
    for place, arrays in enumerate(stack[:-1]):
        x = drop(jax.nn.relu(layers.dense(arrays, x)), rate, keys, place)
    return layers.dense(stack[-1], x)


def image_shape(model: Model, spec: Spec) -> tuple[int, int, int]:
    """Height, width and channels of the rows."""
    if len(spec.features) != 3:
        raise DataError(
            f"{type(model).__name__} needs images of shape (height, width, channels); rows have "
            f"shape {spec.features}. Reshape x, or use MLP."
        )
    height, width, channels = spec.features
    return height, width, channels


@parametrised
class MLP(Model):
    """Dense layers with relu between them."""

    hidden: tuple[int, ...] = param(_widths, "widths of the hidden layers", default=(50, 50))
    initialisation: str = layers.initialisation_param()
    dropout: float = dropout_param("the numbers after each relu")

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh weights and biases."""
        widths = [math.prod(spec.features), *self.hidden, spec.classes or 1]
        return dense_stack(key, widths, spec.dtype, self.initialisation)

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class, or one value."""
        return dense_stack_apply(arrays, x.reshape(x.shape[0], -1))

    def train_apply(self, arrays: Tree, x: Held, drawn: Drawn) -> Array:
        """The same, with dropout."""
        keys = keys_of(self.dropout, drawn.key, len(x))
        return dense_stack_apply(arrays, x.reshape(x.shape[0], -1), self.dropout, keys)

    @property
    def trains_otherwise(self) -> bool:
        """True with dropout."""
        return self.dropout > 0


@parametrised
class CNN(Model):
    """Convolutions, each with relu and 2 x 2 max pooling, then dense layers."""

    channels: tuple[int, ...] = param(_widths, "channels of the convolutions", default=(16, 32))
    hidden: tuple[int, ...] = param(_widths, "widths of the hidden dense layers", default=(128,))
    kernel: int = param(at_least(1), "side of the kernels", default=3)
    padding: int = param(at_least(0), "number of zeros around the images", default=1)
    initialisation: str = layers.initialisation_param()

    def init(self, key: Array, spec: Spec) -> Tree:
        """Fresh weights and biases."""
        height, width, before = image_shape(self, spec)
        dense_key, *conv_keys = jax.random.split(key, len(self.channels) + 1)
        shrink = 2 * self.padding - self.kernel + 1
        convolutions = []
        how = self.initialisation
        for conv_key, after in zip(conv_keys, self.channels, strict=True):
            convolutions.append(
                layers.conv_init(conv_key, self.kernel, before, after, spec.dtype, how)
            )
            height, width, before = (height + shrink) // 2, (width + shrink) // 2, after
            if height < 1 or width < 1:
                raise DataError(
                    f"CNN needs images of which its {len(self.channels)} convolutions, each with "
                    f"pooling, leave something; rows have shape {spec.features}. Give fewer "
                    f"channels or more padding, or use MLP."
                )
        widths = [height * width * before, *self.hidden, spec.classes or 1]
        return {"conv": convolutions, "dense": dense_stack(dense_key, widths, spec.dtype, how)}

    def apply(self, arrays: Tree, x: Held) -> Array:
        """One score for each class, or one value."""
        for convolution in arrays["conv"]:
            x = layers.conv_pool(convolution, x, self.kernel, self.padding)
        return dense_stack_apply(arrays["dense"], x.reshape(x.shape[0], -1))
