"""What is optimised: problems, and the regularisers and constraints that go with them."""

from fedloom.problems.base import Metric, Problem
from fedloom.problems.linear import LeastSquares, Logistic, Multinomial
from fedloom.problems.regularisers import (
    L1,
    Ball,
    Box,
    ElasticNet,
    GroupL1,
    NuclearNorm,
    Regulariser,
    Simplex,
    Sum,
    Zero,
)
from fedloom.problems.supervised import Supervised
from fedloom.problems.vertical import Vertical

__all__ = [
    "L1",
    "Ball",
    "Box",
    "ElasticNet",
    "GroupL1",
    "LeastSquares",
    "Logistic",
    "Metric",
    "Multinomial",
    "NuclearNorm",
    "Problem",
    "Regulariser",
    "Simplex",
    "Sum",
    "Supervised",
    "Vertical",
    "Zero",
]
