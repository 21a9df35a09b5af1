"""Layers as functions of arrays, written for many small networks trained side by side.

Convolutions go through matrix products (im2col): with weights that differ from client to client,
XLA's own convolutions inside a loop are several times slower, on CPU and on GPU. On a GPU small
ones are kernels of their own (`gpu_convolutions.py`), which do not write the patches.
"""

import functools
import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError
from fedloom.parameters import one_of, param
from fedloom.types import Array, Held, Tree


def need_symbols(model: str, x: Held) -> None:
    """Refuse rows that are measurements where a model takes the numbers of words or letters."""
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise DataError(
            f"{model} needs rows of whole numbers, each a word or a letter; these rows are of type "
            f"{x.dtype}. Load a text, such as shakespeare, or use MLP."
        )


def initialisation_param() -> Any:
    """A field for how the weights and biases of dense layers and convolutions begin."""
    return param(
        one_of("he", "glorot", "torch"),
        "fresh weights: uniform within sqrt(6 / inputs), within sqrt(6 / (inputs + outputs)), or, "
        "as PyTorch has them, within 1 / sqrt(inputs), biases too",
        default="he",
    )


def dense_init(
    key: Array, inputs: int, outputs: int, dtype: str, initialisation: str = "he", places: int = 1
) -> dict[str, Array]:
    """Uniform weights, and biases that are zero but for PyTorch's; a kernel has several places."""
    if initialisation == "torch":
        key, bias_key = jax.random.split(key)
        bound = 1 / math.sqrt(inputs)
        bias = jax.random.uniform(bias_key, (outputs,), dtype, -bound, bound)
    else:
        fans = inputs if initialisation == "he" else inputs + places * outputs
        bound, bias = math.sqrt(6 / fans), jnp.zeros(outputs, dtype)
    weights = jax.random.uniform(key, (inputs, outputs), dtype, -bound, bound)
    return {"weights": weights, "bias": bias}


def dense(arrays: Tree, x: Held) -> Array:
    """X W + b."""
    return x @ arrays["weights"] + arrays["bias"]


def conv_init(
    key: Array, size: int, inputs: int, outputs: int, dtype: str, initialisation: str = "he"
) -> dict[str, Array]:
    """A kernel of size x size, kept as the matrix that the product needs."""
    places = size * size
    return dense_init(key, places * inputs, outputs, dtype, initialisation, places)


@functools.cache
def _kernels() -> ModuleType | None:
    """The kernels for a GPU, where there is one with tensor cores for single precision."""
    try:
        capable = float(jax.local_devices(backend="cuda")[0].compute_capability) >= 8
        from fedloom.models import gpu_convolutions
    except (ImportError, RuntimeError):  # of a later JAX, or of one without a GPU
        return None
    return gpu_convolutions if capable else None


def _on_gpu(
    weights: Array, x: Held, size: int, padding: int, stride: int, window: int
) -> tuple[ModuleType, Any] | None:
    """The kernels and the sizes for them, if these arrays are for a GPU and it pays."""
    chosen = getattr(jax.config, "jax_default_device", None)
    platform = jax.default_backend() if chosen is None else getattr(chosen, "platform", chosen)
    numbers = weights.dtype in (jnp.float32, jnp.bfloat16) and x.dtype == weights.dtype
    kernels = _kernels() if platform in ("gpu", "cuda") and numbers else None
    if kernels is None:
        return None
    sizes = kernels.Geometry(*x.shape, weights.shape[1], size, padding, stride, window)
    return (kernels, sizes) if sizes.pays else None


def conv(weights: Array, x: Held, size: int, padding: int, stride: int = 1) -> Array:
    """Convolution without bias of images (rows, height, width, channels)."""
    found = _on_gpu(weights, x, size, padding, stride, 1)
    if found is not None:
        kernels, sizes = found
        return kernels.conv(sizes, weights, x)
    x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    rows, height, width, channels = x.shape
    down, right = height - size + 1, width - size + 1
    shifts = [
        x[:, i : i + down : stride, j : j + right : stride]
        for i in range(size)
        for j in range(size)
    ]
    patches = shifts[0] if size == 1 else jnp.concatenate(shifts, axis=-1)
    product = patches.reshape(-1, size * size * channels) @ weights
    return product.reshape(rows, *patches.shape[1:3], -1)


def group_norm(x: Array, groups: int, floor: float = 1e-5) -> Array:
    """Each image with mean 0 and variance 1 in each group of channels."""
    parts = x.reshape(*x.shape[:3], groups, -1)
    centred = parts - parts.mean((1, 2, 4), keepdims=True)
    variance = (centred * centred).mean((1, 2, 4), keepdims=True)
    return (centred * jax.lax.rsqrt(variance + floor)).reshape(x.shape)


def _windows(x: Array) -> Array:
    """The 2 x 2 windows of images, on axes 2 and 4; an odd last row or column is left out."""
    rows, height, width, channels = x.shape
    x = x[:, : height // 2 * 2, : width // 2 * 2]
    return x.reshape(rows, height // 2, 2, width // 2, 2, channels)


@jax.custom_vjp
def max_pool(x: Array) -> Array:
    """The maximum of every 2 x 2 window."""
    return _windows(x).max((2, 4))


def _max_pool_forward(x: Array) -> tuple[Array, Array]:
    return max_pool(x), x


def _max_pool_backward(x: Array, gradient: Array) -> tuple[Array]:
    """The gradient goes to the first maximum of each window.

    JAX's own rule divides it among ties, which costs two more passes over the images. The numbers
    of a window are compared with each other, and not with the maximum that was found before: XLA
    may compute them again, and round otherwise. Where the gradient goes is a number of 32 bits: on
    a CPU, masks and smaller numbers are compared one by one.
    """
    windows = _windows(x)
    a, b = windows[:, :, 0, :, 0], windows[:, :, 0, :, 1]
    c, d = windows[:, :, 1, :, 0], windows[:, :, 1, :, 1]
    above = jnp.maximum(a, b) >= jnp.maximum(c, d)
    first = jnp.where(above, jnp.where(a >= b, 0, 1), jnp.where(c >= d, 2, 3))
    place = np.arange(4, dtype=np.int32).reshape(1, 1, 2, 1, 2, 1)
    here = first.astype(np.int32)[:, :, None, :, None, :] == place
    spread = jnp.where(here, gradient[:, :, None, :, None, :], 0)
    rows, high, _, wide, _, channels = spread.shape
    spread = spread.reshape(rows, 2 * high, 2 * wide, channels)
    edges = [(0, full - have) for full, have in zip(x.shape, spread.shape, strict=True)]
    return (jnp.pad(spread, edges),)


max_pool.defvjp(_max_pool_forward, _max_pool_backward)


def conv_pool(arrays: dict[str, Array], x: Held, size: int, padding: int) -> Array:
    """relu(max_pool(convolution + bias)).

    Bias and relu come after the pooling, where there is a quarter of the numbers; both are
    monotone, so the result is the same.
    """
    found = _on_gpu(arrays["weights"], x, size, padding, 1, 2)
    if found is not None:
        kernels, sizes = found
        return kernels.conv_pool(sizes, arrays["weights"], arrays["bias"], x)
    pooled = max_pool(conv(arrays["weights"], x, size, padding))
    return jax.nn.relu(pooled + arrays["bias"])
