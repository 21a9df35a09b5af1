"""What scores a row: a linear model, or a network that a problem is given."""

from typing import Any

from fedloom.models.base import Model
from fedloom.parameters import instance_of, param
from fedloom.problems.linear import apply_linear, linear_start, number_of_columns
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree


def model_param() -> Any:
    """The field for the network."""
    rule = instance_of(Model).or_none("a linear model")
    return param(rule, "the network that scores a row", default=None)


def fresh(model: Model | None, intercept: bool, key: Array, spec: Spec, scores: int) -> Tree:
    """The arrays of a fresh model with so many scores a row; 0 stands for a single one."""
    if model is not None:
        return model.init(key, spec._replace(classes=scores))
    wide = (number_of_columns(spec), scores) if scores else (number_of_columns(spec),)
    return linear_start(wide, intercept, spec.dtype)


def scored(model: Model | None, arrays: Tree, x: Held) -> Array:
    """The scores of each row."""
    if model is not None:
        return model.apply(arrays, x)
    return apply_linear(arrays, x.reshape(x.shape[0], -1))
