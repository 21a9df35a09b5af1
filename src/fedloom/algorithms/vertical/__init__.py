"""Vertical: the same people, with different columns at each party."""

from fedloom.algorithms.entry import MethodEntry
from fedloom.algorithms.vertical.cvfl import CVFL
from fedloom.algorithms.vertical.ef_vfl import EFVFL
from fedloom.algorithms.vertical.egvfl import EGVFL
from fedloom.algorithms.vertical.egvfl_augmented import EGVFLAugmented
from fedloom.algorithms.vertical.egvfl_compressed import EGVFLCompressed
from fedloom.algorithms.vertical.egvfl_coordinate import EGVFLCoordinate
from fedloom.algorithms.vertical.egvfl_dual import EGVFLDual
from fedloom.algorithms.vertical.egvfl_error_feedback import EGVFLErrorFeedback
from fedloom.algorithms.vertical.egvfl_nonlinear import EGVFLNonlinear
from fedloom.algorithms.vertical.egvfl_partial import EGVFLPartial
from fedloom.algorithms.vertical.egvfl_proximal import EGVFLProximal
from fedloom.algorithms.vertical.egvfl_slacks import EGVFLSlacks
from fedloom.algorithms.vertical.sharing_admm import SharingADMM
from fedloom.algorithms.vertical.split_training import SplitTraining
from fedloom.algorithms.vertical.vertical_agd import VerticalAGD
from fedloom.algorithms.vertical.vertical_cg import VerticalCG
from fedloom.algorithms.vertical.vertical_gd import VerticalGD
from fedloom.algorithms.vertical.vertical_ogda import VerticalOGDA
from fedloom.operators.compressors import RandK, TopK

_SMOOTH = "min_x  l(sum_i A_i x_i, b) + sum_i r_i(x_i): l and r_i convex and smooth"
_PROXIMAL = "min_x  l(sum_i A_i x_i, b) + sum_i r_i(x_i): l and r_i convex with proximal maps"
_RIDGE = f"{_SMOOTH}; l squared"
_EGVFL = "Beznosikov et al., vertical federated learning as a saddle point problem"
_SPLIT = "min_{w, x}  l(fusion(w, [h_1(x_1), ..., h_n(x_n)]), b) + (l2 / 2) (|w|^2 + sum_i |x_i|^2)"
_STEP = {"step": 0.1}


def _entry(
    key: str,
    cls: type,
    trial: dict,
    source: int | str,
    solves: str = _SMOOTH,
    draws: bool = False,
    first: dict | None = None,
) -> MethodEntry:
    paper = f"{_EGVFL}, Algorithm {source}" if isinstance(source, int) else source
    return MethodEntry(
        key, cls, "vertical", paper, solves, trial, "vertical", not draws, first or {}
    )


ENTRIES = (
    _entry("egvfl", EGVFL, _STEP, 1),
    _entry(
        "egvfl_compressed",
        EGVFLCompressed,
        {"compressor": RandK(50), **_STEP},
        2,
        draws=True,
        first={"compressor": {"kind": "randk", "per_cent": 25}},
    ),
    _entry(
        "egvfl_error_feedback",
        EGVFLErrorFeedback,
        {"compressor": TopK(50), **_STEP},
        3,
        draws=True,
        first={"compressor": {"kind": "topk", "per_cent": 25}},
    ),
    _entry(
        "egvfl_partial", EGVFLPartial, {"cohort": 2, **_STEP}, 4, draws=True, first={"cohort": 2}
    ),
    _entry(
        "egvfl_coordinate",
        EGVFLCoordinate,
        {"rows": 50, "columns": 50, **_STEP},
        5,
        draws=True,
        first={"rows": 50, "columns": 50},
    ),
    _entry("egvfl_slacks", EGVFLSlacks, _STEP, 6),
    _entry(
        "egvfl_nonlinear",
        EGVFLNonlinear,
        _STEP,
        7,
        f"{_SMOOTH}; A_i a network",
        first={"step": 0.002},
    ),
    _entry("egvfl_proximal", EGVFLProximal, _STEP, 8, _PROXIMAL),
    _entry("egvfl_augmented", EGVFLAugmented, _STEP, 9),
    _entry("egvfl_dual", EGVFLDual, _STEP, 10, f"{_SMOOTH}; the conjugate of l smooth"),
    _entry("vertical_gd", VerticalGD, _STEP, "public"),
    _entry("vertical_agd", VerticalAGD, _STEP, "public"),
    _entry("vertical_cg", VerticalCG, {}, "Hestenes, Stiefel 1952", _RIDGE),
    _entry("vertical_ogda", VerticalOGDA, _STEP, "Malitsky, Tam, SIAM J. Optim. 2020"),
    _entry("sharing_admm", SharingADMM, {"rho": 1.0}, "public", _PROXIMAL),
    MethodEntry(
        *("split_training", SplitTraining, "vertical", "Vepakomma et al. 2018", _SPLIT),
        {"lr": 0.02},
        "vertical",
        first={"lr": 0.1},
    ),
    MethodEntry(
        *("cvfl", CVFL, "vertical", "Castiglia et al., ICML 2022, Algorithm 1", _SPLIT),
        {"compressor": TopK(50), "lr": 0.02, "local_steps": 2},
        "vertical",
        first={"compressor": {"kind": "topk", "per_cent": 25}, "lr": 0.05, "local_steps": 2},
    ),
    MethodEntry(
        *("ef_vfl", EFVFL, "vertical", "Valdeira et al., IEEE TSP 2025", _SPLIT),
        {"compressor": TopK(50), "lr": 0.02},
        "vertical",
        first={"compressor": {"kind": "topk", "per_cent": 25}, "lr": 0.1},
    ),
)
