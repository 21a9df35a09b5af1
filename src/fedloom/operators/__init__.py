"""Proximal maps, projections, compressors and other operators: pure functions on arrays."""

from typing import TYPE_CHECKING

from fedloom.lazy import public
from fedloom.operators import aggregators, blocks, compressors, proximal, quantisers, simplex

__all__ = ["aggregators", "blocks", "compressors", "proximal", "quantisers", "simplex"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
