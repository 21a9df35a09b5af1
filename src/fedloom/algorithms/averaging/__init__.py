"""Averaging: FedAvg and its relatives, the baselines that every paper compares with."""

from fedloom.algorithms.averaging.fedavg import FedAvg
from fedloom.algorithms.averaging.feddyn import FedDyn
from fedloom.algorithms.averaging.fednova import FedNova
from fedloom.algorithms.averaging.fedopt import FedAdagrad, FedAdam, FedAvgM, FedYogi
from fedloom.algorithms.averaging.fedprox import FedProx
from fedloom.algorithms.averaging.scaffnew import Scaffnew
from fedloom.algorithms.averaging.scaffold import Scaffold
from fedloom.algorithms.entry import MethodEntry

_SOLVES = "min_w  sum_i a_i f_i(w): one model for all clients"
_REDDI = "Reddi et al., ICLR 2021"
_FIRST = {"lr": 0.5, "local_steps": 20}

ENTRIES = (
    MethodEntry(
        "fedavg",
        FedAvg,
        "averaging",
        "McMahan et al., AISTATS 2017",
        _SOLVES,
        {"lr": 0.1, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "fedprox",
        FedProx,
        "averaging",
        "Li et al., MLSys 2020",
        _SOLVES,
        {"lr": 0.1, "mu": 0.2, "local_steps": 3, "cohort": 3, "stragglers": 30},
        first=_FIRST,
    ),
    MethodEntry(
        "scaffold",
        Scaffold,
        "averaging",
        "Karimireddy et al., ICML 2020",
        _SOLVES,
        {"lr": 0.1, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "fedavgm",
        FedAvgM,
        "averaging",
        "Hsu, Qi, Brown, 2019",
        _SOLVES,
        {"lr": 0.1, "momentum": 0.5, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "fedadagrad",
        FedAdagrad,
        "averaging",
        _REDDI,
        _SOLVES,
        {"lr": 0.1, "server_lr": 0.1, "tau": 0.1, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "fedadam",
        FedAdam,
        "averaging",
        _REDDI,
        _SOLVES,
        {"lr": 0.1, "server_lr": 0.1, "tau": 0.1, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "fedyogi",
        FedYogi,
        "averaging",
        _REDDI,
        _SOLVES,
        {"lr": 0.1, "server_lr": 0.1, "tau": 0.1, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "fednova",
        FedNova,
        "averaging",
        "Wang et al., NeurIPS 2020",
        _SOLVES,
        {"lr": 0.1, "local_steps": "1 epoch", "momentum": 0.5, "cohort": 3},
        first={"lr": 0.5, "local_steps": "2 epochs"},
    ),
    MethodEntry(
        "feddyn",
        FedDyn,
        "averaging",
        "Acar et al., ICLR 2021",
        _SOLVES,
        {"lr": 0.1, "alpha": 0.5, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "scaffnew",
        Scaffnew,
        "averaging",
        "Mishchenko et al., ICML 2022",
        _SOLVES,
        {"lr": 0.1, "p": 0.4, "cohort": 3},
        first={"lr": 0.5, "p": 0.05},
    ),
)
