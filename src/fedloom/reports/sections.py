"""The data of each picture of a report, as plain values; None if a study has no such data.

The page's script draws them. Numbers are kept to six digits, which no picture can show.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedloom.measuring.result import Result
from fedloom.metrics.chosen import base
from fedloom.pictures import labels
from fedloom.pictures.shown import evaluations
from fedloom.reports.coefficients import coefficients
from fedloom.reports.origins import why_none
from fedloom.reports.reading import Study
from fedloom.reports.trials import trials

Data = dict[str, Any]

_MOST_BINS = 600  # more columns than this cannot be told apart on a screen
_MOST_LINES = 100
_NOT_CLASSES = ("client", "rows", "test rows")


class Section(NamedTuple):
    """A picture with its heading and a sentence that explains it."""

    kind: str
    title: str
    note: str
    data: Callable[[Study], Data | None]


def sections(study: Study) -> list[tuple[Section, Data]]:
    """The sections whose data exist."""
    made = [(section, section.data(study)) for section in SECTIONS]
    return [(section, data) for section, data in made if data is not None]


def _progress(study: Study) -> Data | None:
    names = [n for n in labels.metrics(study.columns) if n not in labels.LOGARITHMIC]
    main = [name for name in study.asked.metrics if name in names]  # what is shown first
    return _curves(study, list(dict.fromkeys((*main, *names))))


def _solving(study: Study) -> Data | None:
    return _curves(study, [name for name in labels.LOGARITHMIC if name in study.columns])


def _curves(study: Study, columns: Sequence[str]) -> Data | None:
    """Mean, smallest and largest value over seeds at each evaluation."""
    if not columns:
        return None
    return {
        "metrics": [
            {"name": n, "label": study.label(n), "log": base(n) in labels.LOGARITHMIC}
            for n in columns
        ],
        "series": [_series(name, runs, columns) for name, runs in study.methods.items()],
    }


def _series(name: str, runs: Sequence[Result], columns: Sequence[str]) -> Data:
    rows = evaluations(runs)

    def at(*names: str) -> np.ndarray:
        """The sum of some columns: seeds by evaluations."""
        return np.array(
            [[sum(_real(row.get(n)) for n in names) for row in rows_at] for rows_at in rows]
        ).T

    return {
        "name": name,
        "x": {
            "round": plain(at("round").mean(0)),
            "bytes": plain(at("bytes_up", "bytes_down").mean(0)),
            "seconds": plain(at("seconds").mean(0)),
        },
        "y": {
            column: {
                "mean": plain(at(column).mean(0)),
                **({"low": plain(at(column).min(0)), "high": plain(at(column).max(0))}
                   if len(runs) > 1 else {}),
            }
            for column in columns
        },
    }  # fmt: skip


def _clients(study: Study) -> Data | None:
    """Each client's metrics at the end, its mean over seeds."""
    first = study.runs[0]
    names = [
        name
        for name in first.client_metrics
        if name not in first.holdings and all(name in run.client_metrics for run in study.runs)
    ]
    if not names or len(first.client_names) < 2:
        return None
    main = [name for name in names if name in map(base, study.asked.metrics)]
    names = list(dict.fromkeys((*main, *names)))
    return {
        "clients": list(first.client_names),
        "seeds": max(len(runs) for runs in study.methods.values()),
        "rows": {
            title: [int(count) for count in first.holdings[name]]
            for name, title in (("rows", "Training rows"), ("test rows", "Test rows"))
            if name in first.holdings
        },
        "why_none": why_none(study),
        "metrics": [{"name": name, "label": labels.label(name)} for name in names],
        "series": [
            {"name": method}
            | {"y": {n: plain(np.mean([r.client_metrics[n] for r in runs], 0)) for n in names}}
            for method, runs in study.methods.items()
        ],
    }


def _holdings(study: Study) -> Data | None:
    """Rows of each class, all rows, or the number of features at each client."""
    held = study.runs[0].holdings
    if not held:
        return None
    classes = [name for name in held if name not in _NOT_CLASSES]
    return {
        "clients": list(held["client"]),
        "unit": "features" if "features" in held else "rows",
        "layers": [
            {"name": name, "counts": [int(count) for count in held[name]]}
            for name in (classes or ["rows"])
        ],
    }


def _weights(study: Study) -> Data | None:
    """The weights that a robust method gives to clients, of its first seed."""
    panels = []
    for name, (run, *_) in study.methods.items():
        shown = [
            (row["round"], np.asarray(info.weights))
            for row, info in zip(run.rows, run.info, strict=True)
            if np.shape(getattr(info, "weights", 0)) == (len(run.client_names),)
        ]
        if shown:
            rounds, weights = zip(*shown, strict=True)
            largest = np.argsort(-np.max(weights, 0), kind="stable")[:_MOST_LINES]
            lines = [
                {"name": run.client_names[i], "y": plain(np.array(weights)[:, i])} for i in largest
            ]
            panels.append({"name": name, "round": list(rounds), "lines": lines})
    return {"panels": panels, "clients": len(study.runs[0].client_names)} if panels else None


def _support(study: Study) -> Data | None:
    """Which entries of the models are not zero; long models by the share within bins."""
    sparse = "sparsity" in study.columns or any(
        "regulariser=" in run.about["problem"] and "regulariser=Zero()" not in run.about["problem"]
        for run in study.runs
    )
    if not sparse:
        return None
    methods = []
    for name, runs in study.methods.items():
        found = [np.concatenate(_flat(run.model)) != 0 for run in runs]
        # Where every seed has its own training rows, one may know a word that another does not.
        kept = np.array([entries for entries in found if len(entries) == len(found[0])])
        bins = np.array_split(kept.mean(0), min(_MOST_BINS, kept.shape[1]))
        methods.append(
            {
                "name": name,
                "size": kept.shape[1],
                "kept": plain(kept.sum(1).mean()),
                "share": plain(np.array([entry.mean() for entry in bins])),
            }
        )
    return {"methods": methods}


def _flat(model: Any) -> list[np.ndarray]:
    return [np.ravel(leaf) for leaf in jax.tree.leaves(model)]


def _sizes(study: Study) -> Data | None:
    """The sizes of the clients' own models, where a method says them."""
    names = list(study.runs[0].client_names)
    series = []
    for name, (run, *_) in study.methods.items():
        sizes = run.about.get("sizes")
        if isinstance(sizes, dict):
            sizes = [sizes.get(client) for client in names]
        if sizes and len(sizes) == len(names):
            series.append({"name": name, "y": plain(np.array(list(map(_real, sizes))))})
    return {"clients": names, "series": series} if series else None


def plain(values: Any) -> Any:
    """Numbers that JSON can hold: six digits, null where not finite."""
    if np.ndim(values):
        return [plain(value) for value in values]
    value = float(values)
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _real(value: float | None) -> float:
    return float("nan") if value is None else float(value)


SECTIONS = (
    Section(
        "trials",
        "What was tried",
        "Each mark is a setting, judged on held-out training rows; the best were trained anew.",
        trials,
    ),
    Section(
        "curves",
        "Progress",
        "Each line is a method; with several seeds it is their mean, and a band reaches from the "
        "lowest to the highest.",
        _progress,
    ),
    Section(
        "curves",
        "Distance to the solution",
        "How far the iterates are from solving the problem exactly. Lower is better.",
        _solving,
    ),
    Section(
        "clients",
        "How the clients fare",
        "Each mark is a client at the end of the run, with the model that it would use; with "
        "several seeds, its mean over them.",
        _clients,
    ),
    Section(
        "holdings",
        "Who holds what",
        "What each client brings to training. The more they differ, the harder the problem.",
        _holdings,
    ),
    Section(
        "weights",
        "Weights of the clients",
        "A robust method gives more weight to the clients that it serves worst. "
        "The six largest are coloured.",
        _weights,
    ),
    Section(
        "support",
        "Which coefficients are kept",
        "A sparse model uses few coefficients. Strong colour: kept; pale: exactly zero.",
        _support,
    ),
    Section(
        "coefficients",
        "Coefficients",
        "What each column adds to the score of a row: numbers for a change by one standard "
        "deviation, words where they stand. An odds ratio, of counts a rate ratio, of survival a "
        "hazard ratio, is exp(coefficient). Every word has its own, and none is the reference: "
        "two words are compared by the ratio of their odds ratios. There are no standard errors.",
        coefficients,
    ),
    Section(
        "sizes",
        "Sizes of the clients' models",
        "Each client has a model of its own; smaller ones are cheaper to keep and to run.",
        _sizes,
    ),
)
