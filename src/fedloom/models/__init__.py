"""Networks; any pair of functions (init, apply) works as one."""

from fedloom.models.base import Model, Pair
from fedloom.models.networks import CNN, MLP
from fedloom.models.recurrent import GRU

__all__ = ["CNN", "GRU", "MLP", "Model", "Pair"]
