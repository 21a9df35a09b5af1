"""Minimax: AUC and robust classification, with one dual for all clients or one for each."""

from fedloom.algorithms.entry import MethodEntry
from fedloom.algorithms.minimax.codasca import CODASCA
from fedloom.algorithms.minimax.fed_norm_sgda import FedNormSGDA
from fedloom.algorithms.minimax.fednest import FedNest
from fedloom.algorithms.minimax.fedsgda_m import FedSGDAM
from fedloom.algorithms.minimax.fedsgda_plus import FedSGDAPlus
from fedloom.algorithms.minimax.fedualex import FeDualEx
from fedloom.algorithms.minimax.fess_gda import FESSGDA
from fedloom.algorithms.minimax.ffmdr import FFMDR
from fedloom.algorithms.minimax.ffmdr_consensus import FFMDRConsensus
from fedloom.algorithms.minimax.inner import SGDA
from fedloom.algorithms.minimax.local_sgda import LocalSGDA
from fedloom.algorithms.minimax.local_sgda_plus import LocalSGDAPlus
from fedloom.algorithms.minimax.momentum_local_sgda import MomentumLocalSGDA
from fedloom.algorithms.minimax.optimistic_local_sgda import OptimisticLocalSGDA

_WEIGHTS = "a_i = 1/n, or rows_i / rows, by the problem's weights; f_i strongly concave in y"
_SH = f"SH, one dual for all: min_x max_y  sum_i a_i f_i(x, y) + g(x); {_WEIGHTS}"
_SEP = f"SEP, a dual for each client: min_x  sum_i a_i max_y f_i(x, y) + g(x); {_WEIGHTS}"
_RATES = {"lr": 0.1, "dual_lr": 0.2, "local_steps": 3}
_FIRST = {"lr": 0.02, "dual_lr": 0.02, "local_steps": 10}


def _entry(
    key: str, cls: type, paper: str, trial: dict, solves: str = _SH, first: dict = _FIRST
) -> MethodEntry:
    return MethodEntry(key, cls, "minimax", paper, solves, trial, "saddle", first=first)


ENTRIES = (
    _entry(
        "ffmdr", FFMDR, "A fast federated method for minimax problems, Algorithm 1",
        {"beta": 0.5, "solver": SGDA(lr=0.1, epochs=2, accuracy=0.1), "cohort": 3}, _SEP,
        {"beta": 1.0, "solver": {"kind": "exact"}},
    ),
    _entry(
        "ffmdr_consensus", FFMDRConsensus, "FFMDR with a shared dual",
        {"beta": 0.5, "solver": SGDA(lr=0.1, epochs=2), "cohort": 3},
        first={"beta": 1.0, "solver": {"kind": "exact"}},
    ),
    _entry("local_sgda", LocalSGDA, "Deng, Mahdavi, AISTATS 2021", _RATES | {"cohort": 3}),
    _entry(
        "local_sgda_plus", LocalSGDAPlus, "Deng, Mahdavi, AISTATS 2021",
        _RATES | {"snapshot_every": 2},
    ),
    _entry("momentum_local_sgda", MomentumLocalSGDA, "Sharma et al., ICML 2022", _RATES),
    _entry(
        "fed_norm_sgda", FedNormSGDA, "Sharma, Panda, Joshi, TMLR 2023",
        _RATES | {"local_steps": "2 epochs", "cohort": 3},
    ),
    _entry(
        "fedsgda_plus", FedSGDAPlus, "Wu et al., NeurIPS 2023",
        _RATES | {"snapshot_every": 2, "server_lr": 0.9, "server_dual_lr": 0.8},
    ),
    _entry("fedsgda_m", FedSGDAM, "Wu et al., NeurIPS 2023", _RATES),
    _entry(
        "codasca", CODASCA, "Yuan et al., ICML 2021",
        _RATES | {"gamma": 5.0, "stage_rounds": 2, "cohort": 3},
    ),
    _entry(
        "fednest", FedNest, "Tarzanagh et al., ICML 2022",
        _RATES | {"inner_rounds": 2, "cohort": 3},
        first={"lr": 0.2, "dual_lr": 0.2, "local_steps": 10},
    ),
    _entry(
        "optimistic_local_sgda", OptimisticLocalSGDA,
        "Daskalakis et al., ICLR 2018, with local steps", _RATES | {"cohort": 3},
    ),
    _entry(
        "fess_gda", FESSGDA, "Shen et al., AISTATS 2024",
        _RATES | {"smoothing": 0.7, "tracking": 0.3, "server_lr": 0.9, "server_dual_lr": 0.8}
        | {"cohort": 3},
    ),
    _entry(
        "fedualex", FeDualEx, "Bai, Bullins, ICLR 2024",
        _RATES | {"server_lr": 0.9, "cohort": 3},
    ),
)  # fmt: skip
