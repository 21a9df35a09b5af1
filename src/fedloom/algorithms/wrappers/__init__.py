"""Wrappers: what works on any method by standing between hub and clients."""

from fedloom.algorithms.wrappers.compressed import Compressed

__all__ = ["Compressed"]
