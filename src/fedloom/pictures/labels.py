"""Labels and numbers in a form for readers."""

import math
from collections.abc import Iterable

AXES = {  # what metrics may be drawn against
    "round": "round",
    "bytes": "bytes sent, both ways",
    "bytes_up": "bytes sent by clients",
    "bytes_down": "bytes sent by the hub",
    "seconds": "seconds",
}
COSTS = ("round", "bytes_up", "bytes_down", "seconds", "sites")  # what a run took
LOGARITHMIC = ("gap", "relative_gap", "residual", "distance", "optimality")  # 0 is the solution
_PARTS = {
    "rows": "all rows",
    "worst": "worst client",
    "worst10": "worst tenth of the clients",
    "best10": "best tenth of the clients",
}
_SPELT = {"auc": "AUC", "rmse": "RMSE", "mae": "MAE", "brier": "Brier score"}


def label(column: str, columns: Iterable[str] = ()) -> str:
    """A column of the history in words; beside one over rows, that over clients is called so."""
    base, _, part = column.rpartition("_")
    if part in _PARTS:
        return f"{label(base)}, {_PARTS[part]}"
    if f"{column}_rows" in columns:
        return f"{label(column)}, mean over clients"
    return _SPELT.get(column, column.replace("_", " ").capitalize())


def metrics(columns: Iterable[str]) -> list[str]:
    """The columns that say how good a model is."""
    return [name for name in columns if name not in COSTS and not name.endswith("_std")]


def number(value: float, digits: int = 4) -> str:
    """Some digits that count."""
    if not math.isfinite(value):
        return "not finite"
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{min(digits, 3) - 1}e}"
    return f"{value:.{digits}g}"


def bytes_text(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
