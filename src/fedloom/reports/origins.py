"""Sentences on where the numbers of a report come from: rows, machines and columns."""

from typing import Any

from fedloom.pictures.labels import bytes_text
from fedloom.preparation import Preparation
from fedloom.reports import reading
from fedloom.reports.reading import Study

_NO_ROWS, _ONE_CLASS, _NOT_DEFINED = "no rows", "one class only", "not defined"
_NOT_CLASSES = ("client", "rows", "test rows", "features")


def noun(study: Study) -> str:
    """The word for those who hold the data of a study."""
    return reading.noun(study.runs[0])


def said(study: Study) -> str:
    """On which rows figures are, and whether sites were simulated."""
    about, held = study.runs[0].about, study.runs[0].holdings
    federated = about.get("engine") == "federation"
    where = (
        f"The {noun(study)}s computed on their own machines."
        if federated
        else f"This was a simulation: one machine did the work of all {noun(study)}s."
    )
    if "test rows" in held and any(held["test rows"]):
        return f"Figures are on test rows, which were held out of training. {where}"
    if "rows" in held and not federated:
        return f"No rows were held out: figures are on the rows of training. {where}"
    return where


def columns(study: Study) -> dict[str, Any] | None:
    """What was learned from; None where the data were no tables of sites."""
    about = study.runs[0].about
    saved = about.get("preparation")
    if saved is None:
        return None
    found = Preparation.from_dict(saved)
    ignored = about.get("settings", {}).get("data", {}).get("ignore", ())
    sent = found.bytes_up + found.bytes_down
    return {
        "label": found.label,
        "rows": [
            [
                column.name,
                "numbers" if column.words is None else f"{len(column.words)} words",
                str(column.missing),
            ]
            for column in found.columns
        ],
        "left_out": {**dict.fromkeys(ignored, "the settings ignore it"), **found.left_out},
        "sent": bytes_text(sent) if sent else "",
    }


def why_none(study: Study) -> list[str]:
    """For each client, why one of its metrics may be missing while others are there."""
    first = study.runs[0]
    held = first.holdings
    tested = held.get("test rows")
    counts = tested if tested is not None and any(tested) else held.get("rows")
    several = any(name not in _NOT_CLASSES for name in held)
    reasons = []
    for i in range(len(first.client_names)):
        measured = any(values[i] == values[i] for values in first.client_metrics.values())
        empty = counts[i] == 0 if counts is not None else not measured
        reasons.append(_NO_ROWS if empty else _ONE_CLASS if several and measured else _NOT_DEFINED)
    return reasons
