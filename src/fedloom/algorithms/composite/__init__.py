"""Composite: sparse and constrained models from unlike clients, without client drift."""

from fedloom.algorithms.composite.decoupled_prox import DecoupledProx
from fedloom.algorithms.composite.fast_fedda import FastFedDA
from fedloom.algorithms.composite.fedadmm import FedADMM
from fedloom.algorithms.composite.fedcanon import FedCanon
from fedloom.algorithms.composite.feddr import FedDR
from fedloom.algorithms.composite.feddualavg import FedDualAvg
from fedloom.algorithms.composite.fedmid import FedMid
from fedloom.algorithms.entry import MethodEntry

_SOLVES = "min_x  sum_i a_i f_i(x) + g(x): f_i smooth, g convex with a proximal map"
_FIRST = {"lr": 1.0, "local_steps": 5}

ENTRIES = (
    MethodEntry(
        "decoupled_prox",
        DecoupledProx,
        "composite",
        "Zhang, Hu, Johansson, ICASSP 2024",
        _SOLVES,
        {"lr": 0.1, "local_steps": 3, "cohort": 3},
        "composite",
        first=_FIRST,
    ),
    MethodEntry(
        "fedmid",
        FedMid,
        "composite",
        "Yuan, Zaheer, Reddi, ICML 2021",
        _SOLVES,
        {"lr": 0.1, "local_steps": 3, "cohort": 3},
        "composite",
        first=_FIRST,
    ),
    MethodEntry(
        "feddualavg",
        FedDualAvg,
        "composite",
        "Yuan, Zaheer, Reddi, ICML 2021",
        _SOLVES,
        {"lr": 0.1, "local_steps": 3, "cohort": 3},
        "composite",
        first=_FIRST,
    ),
    MethodEntry(
        "fast_fedda",
        FastFedDA,
        "composite",
        "Bao et al., ICML 2022",
        f"{_SOLVES}; f_i strongly convex",
        {"mu": 0.1, "local_steps": 3, "cohort": 3},
        "composite",
        first={"mu": 0.01, "local_steps": 5},
    ),
    MethodEntry(
        "feddr",
        FedDR,
        "composite",
        "Tran-Dinh et al., NeurIPS 2021",
        f"{_SOLVES}; f_i may be nonconvex",
        {"step": 0.5, "lr": 0.2, "local_steps": 3, "relaxation": 1.5, "cohort": 3},
        "composite",
        first={"step": 1.0, "lr": 0.5, "local_steps": 5},
    ),
    MethodEntry(
        "fedcanon",
        FedCanon,
        "composite",
        "Zhou et al., arXiv 2504.11903, 2025",
        f"{_SOLVES}; f_i may be nonconvex",
        {"lr": 0.1, "local_steps": 3, "server_lr": 0.8, "cohort": 3},
        "composite",
        first=_FIRST,
    ),
    MethodEntry(
        "fedadmm",
        FedADMM,
        "composite",
        "Wang, Marella, Anderson, CDC 2022",
        _SOLVES,
        {"rho": 2.0, "lr": 0.2, "local_steps": 3, "cohort": 3},
        "composite",
        first={"rho": 1.0, "lr": 0.5, "local_steps": 5},
    ),
)
