"""Operations number by number: arithmetic, comparisons, activations.

Where a function has a kink, its slope there is PyTorch's.
"""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.types import Array

Number = float | Array  # an array, or a number that stands in the program
Table = dict[str, Callable[..., Any]]


def _add(a: Number, b: Number, alpha: float = 1) -> Any:
    return a + (b if alpha == 1 else alpha * b)


def _sub(a: Number, b: Number, alpha: float = 1) -> Any:
    return a - (b if alpha == 1 else alpha * b)


def _rsub(a: Number, b: Number, alpha: float = 1) -> Any:
    return b - (a if alpha == 1 else alpha * a)


def _div(a: Number, b: Number, rounding_mode: str | None = None) -> Array:
    if rounding_mode == "floor":
        return jnp.floor_divide(a, b)
    quotient = jnp.true_divide(a, b)
    return jnp.trunc(quotient) if rounding_mode == "trunc" else quotient


def _pow(a: Number, b: Number) -> Array:
    if isinstance(b, float) and b.is_integer() and abs(b) < 64:
        b = int(b)  # repeated products, which are exact for negative numbers too
    return jnp.power(a, b)


def _clamp(x: Array, min: Number | None = None, max: Number | None = None) -> Array:
    if min is not None:
        x = jnp.where(x < min, min, x)
    return x if max is None else jnp.where(x > max, max, x)


def _clamp_min(x: Array, min: Number) -> Array:
    return _clamp(x, min)


def _clamp_max(x: Array, max: Number) -> Array:
    return _clamp(x, None, max)


def _hardtanh(x: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    return jnp.where(x <= min_val, min_val, jnp.where(x >= max_val, max_val, x))


def _relu6(x: Array) -> Array:
    return _hardtanh(x, 0.0, 6.0)


def _hardsigmoid(x: Array) -> Array:
    return _hardtanh(x / 6 + 0.5, 0.0, 1.0)


def _hardswish(x: Array) -> Array:
    return x * _hardsigmoid(x)


def _leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    return jnp.where(x > 0, x, negative_slope * x)


def _prelu(x: Array, weight: Array) -> Array:
    if weight.size > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return jnp.where(x > 0, x, weight * x)


def _elu(x: Array, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Array:
    below = jnp.where(x > 0, 0, x)  # so that no infinity meets the slope
    return scale * jnp.where(x > 0, x, alpha * jnp.expm1(below * input_scale))


def _gelu(x: Array, approximate: str = "none") -> Array:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _softplus(x: Array, beta: float = 1, threshold: float = 20) -> Array:
    return jnp.where(x * beta > threshold, x, jax.nn.softplus(x * beta) / beta)


def _addcmul(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + value * a * b


def _masked_fill(x: Array, mask: Array, value: Number) -> Array:
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)


def _where(condition: Array, a: Number, b: Number) -> Array:
    return jnp.where(condition, a, b)


def _one(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of exactly one number, whatever else JAX's own would take."""
    return lambda x: function(x)


def _two(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a, b)


_OF_ONE: Table = {
    **{"abs": jnp.abs, "neg": jnp.negative, "sign": jnp.sign, "reciprocal": jnp.reciprocal},
    **{"exp": jnp.exp, "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "log2": jnp.log2},
    **{"sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "square": jnp.square, "erf": lax.erf},
    **{"sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "atan": jnp.arctan, "tanh": jnp.tanh},
    **{"floor": jnp.floor, "ceil": jnp.ceil, "round": jnp.round, "trunc": jnp.trunc},
    **{"relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu, "mish": jax.nn.mish},
    **{"selu": jax.nn.selu, "log_sigmoid": jax.nn.log_sigmoid, "relu6": _relu6},
    **{"hardsigmoid": _hardsigmoid, "hardswish": _hardswish},
    **{"logical_not": jnp.logical_not, "bitwise_not": jnp.bitwise_not},
    **{"isnan": jnp.isnan, "isinf": jnp.isinf},
}
_OF_TWO: Table = {
    **{"mul": jnp.multiply, "floor_divide": jnp.floor_divide, "remainder": jnp.remainder},
    **{"fmod": jnp.fmod, "maximum": jnp.maximum, "minimum": jnp.minimum},
    **{"eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less, "le": jnp.less_equal},
    **{"gt": jnp.greater, "ge": jnp.greater_equal},
    **{"logical_and": jnp.logical_and, "logical_or": jnp.logical_or},
    **{"logical_xor": jnp.logical_xor, "bitwise_and": jnp.bitwise_and},
    **{"bitwise_or": jnp.bitwise_or, "bitwise_xor": jnp.bitwise_xor},
}
# Sizes that depend on the number of rows are computed in the program, with Python's operators.
_OF_SIZES: Table = {
    f"operator.{name}": _two(getattr(operator, name))
    for name in ("add", "sub", "mul", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge")
}
TABLE: Table = {
    **{f"aten.{name}.default": _one(function) for name, function in _OF_ONE.items()},
    **{
        f"aten.{name}.{overload}": _two(function)
        for name, function in _OF_TWO.items()
        for overload in ("default", "Tensor", "Scalar")
    },
    **_OF_SIZES,
    "operator.neg": _one(operator.neg),
    **dict.fromkeys(("aten.add.Tensor", "aten.add.Scalar"), _add),
    **dict.fromkeys(("aten.sub.Tensor", "aten.sub.Scalar"), _sub),
    **dict.fromkeys(("aten.rsub.Tensor", "aten.rsub.Scalar"), _rsub),
    **dict.fromkeys(
        ("aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode"), _div
    ),
    **dict.fromkeys(("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar"), _pow),
    **dict.fromkeys(("aten.clamp.default", "aten.clamp.Tensor"), _clamp),
    "aten.clamp_min.default": _clamp_min,
    "aten.clamp_max.default": _clamp_max,
    "aten.hardtanh.default": _hardtanh,
    "aten.leaky_relu.default": _leaky_relu,
    **dict.fromkeys(("aten.prelu.default", "aten._prelu_kernel.default"), _prelu),
    "aten.elu.default": _elu,
    "aten.gelu.default": _gelu,
    "aten.softplus.default": _softplus,
    "aten.addcmul.default": _addcmul,
    **dict.fromkeys(("aten.masked_fill.Scalar", "aten.masked_fill.Tensor"), _masked_fill),
    **dict.fromkeys(
        ("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"),
        _where,
    ),
}
