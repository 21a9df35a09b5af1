"""Networks; any pair of functions (init, apply) works as one."""

from fedloom.models.base import Model, Pair
from fedloom.models.networks import CNN, MLP

__all__ = ["CNN", "MLP", "Model", "Pair"]
