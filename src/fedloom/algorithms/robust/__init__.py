"""Robust: no client left behind, by optimising for the worst mixture of clients or for fairness."""

from fedloom.algorithms.entry import MethodEntry
from fedloom.algorithms.robust.afl import AFL
from fedloom.algorithms.robust.drfa import DRFA
from fedloom.algorithms.robust.drfa_ga import DRFAGA
from fedloom.algorithms.robust.drfa_prox import DRFAProx
from fedloom.algorithms.robust.q_fedavg import QFedAvg
from fedloom.algorithms.robust.q_fedsgd import QFedSGD
from fedloom.algorithms.robust.scaff_pd import ScaffPD
from fedloom.algorithms.robust.term import TERM

_DENG = "Deng, Kamani, Mahdavi, NeurIPS 2020"
_LI = "Li, Sanjabi, Beirami, Smith, ICLR 2020"
_WORST = "min_w in W  max_lambda  sum_i lambda_i f_i(w): the worst mixture of clients"
_HELD = f"{_WORST}, lambda held to equal weights"
_FAIR = "min_w  sum_i a_i f_i(w)^(q+1) / (q+1): large losses count more"
_TILTED = "min_w  (1/t) log sum_i a_i exp(t f_i(w)): large losses count more, or less"
_FIRST = {"lr": 0.02, "weight_lr": 0.01, "local_steps": 10}

ENTRIES = (
    MethodEntry(
        "afl",
        AFL,
        "robust",
        "Mohri, Sivek, Suresh, ICML 2019",
        _WORST,
        {"lr": 0.2, "weight_lr": 0.1},
        first={"lr": 0.1, "weight_lr": 0.01},
    ),
    MethodEntry(
        "drfa",
        DRFA,
        "robust",
        _DENG,
        _WORST,
        {"lr": 0.1, "weight_lr": 0.05, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "drfa_prox",
        DRFAProx,
        "robust",
        _DENG,
        _HELD,
        {"lr": 0.1, "weight_lr": 0.05, "mu": 0.5, "prior": "kl", "local_steps": 3, "cohort": 3},
        first=_FIRST | {"mu": 0.01},
    ),
    MethodEntry(
        "drfa_ga",
        DRFAGA,
        "robust",
        _DENG,
        _HELD,
        {"lr": 0.1, "weight_lr": 0.1, "mu": 0.2, "local_steps": 3, "cohort": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "q_fedavg",
        QFedAvg,
        "robust",
        _LI,
        _FAIR,
        {"lr": 0.1, "q": 1.0, "local_steps": 3, "cohort": 3},
        first={"lr": 0.1, "q": 1.0, "local_steps": 10},
    ),
    MethodEntry(
        "q_fedsgd",
        QFedSGD,
        "robust",
        _LI,
        _FAIR,
        {"lr": 0.5, "q": 1.0, "cohort": 3},
        first={"lr": 0.5, "q": 1.0},
    ),
    MethodEntry(
        "scaff_pd",
        ScaffPD,
        "robust",
        "Yu, Karimireddy, Ma, Jordan, 2023",
        "min_w  max_lambda  sum_i lambda_i f_i(w): the worst mixture, lambda held to equal weights",
        {"lr": 0.1, "weight_lr": 0.1, "mu": 0.2, "local_steps": 3},
        first=_FIRST,
    ),
    MethodEntry(
        "term",
        TERM,
        "robust",
        "Li, Beirami, Sanjabi, Smith, ICLR 2021",
        _TILTED,
        {"lr": 0.1, "tilt": 1.0, "local_steps": 3, "cohort": 3},
        first={"lr": 0.1, "tilt": 1.0, "local_steps": 10},
    ),
)
