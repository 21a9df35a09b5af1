"""Compressors: they turn a vector into fewer bytes, and back into a vector at the receiver."""

from typing import TYPE_CHECKING

from fedloom.lazy import public
from fedloom.operators.compressors.base import Biased, Compressor, Identity, Unbiased
from fedloom.operators.compressors.low_rank import LowRank
from fedloom.operators.compressors.rounding import Natural, RandomRounding
from fedloom.operators.compressors.sparse import RandK, TopK

__all__ = [
    "Biased",
    "Compressor",
    "Identity",
    "LowRank",
    "Natural",
    "RandK",
    "RandomRounding",
    "TopK",
    "Unbiased",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
