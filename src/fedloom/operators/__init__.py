"""Proximal maps, projections, compressors and other operators: pure functions on arrays."""

from fedloom.operators import aggregators, blocks, compressors, proximal, quantisers, simplex

__all__ = ["aggregators", "blocks", "compressors", "proximal", "quantisers", "simplex"]
