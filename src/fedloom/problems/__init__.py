"""Problems, which say what is optimised, and their regularisers and constraints."""

from typing import TYPE_CHECKING

from fedloom.lazy import public
from fedloom.problems.adversarial import Adversarial
from fedloom.problems.auc import AUC
from fedloom.problems.augmentation import Augmentation
from fedloom.problems.base import Metric, Problem
from fedloom.problems.bilinear import Bilinear
from fedloom.problems.constraints import Ball, Box, Simplex
from fedloom.problems.cox import Cox
from fedloom.problems.linear import LeastSquares, Logistic, Multinomial
from fedloom.problems.multi_label import MultiLabel
from fedloom.problems.personal import Personal
from fedloom.problems.poisson import Poisson
from fedloom.problems.regularisers import (
    L1,
    ElasticNet,
    GroupL1,
    NuclearNorm,
    Regulariser,
    Sum,
    Zero,
)
from fedloom.problems.saddle import Saddle, SaddleProblem
from fedloom.problems.supervised import Supervised
from fedloom.problems.vertical import Vertical

__all__ = [
    "AUC",
    "L1",
    "Adversarial",
    "Augmentation",
    "Ball",
    "Bilinear",
    "Box",
    "Cox",
    "ElasticNet",
    "GroupL1",
    "LeastSquares",
    "Logistic",
    "Metric",
    "MultiLabel",
    "Multinomial",
    "NuclearNorm",
    "Personal",
    "Poisson",
    "Problem",
    "Regulariser",
    "Saddle",
    "SaddleProblem",
    "Simplex",
    "Sum",
    "Supervised",
    "Vertical",
    "Zero",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
