"""What is optimised: problems, and the regularisers and constraints that go with them."""

from fedloom.problems.base import Metric, Problem
from fedloom.problems.linear import LeastSquares, Logistic, Multinomial
from fedloom.problems.personal import Personal
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
    "Personal",
    "Problem",
    "Regulariser",
    "Simplex",
    "Sum",
    "Supervised",
    "Zero",
]
