"""Metrics of the scores and labels of all sites: from means that they tell, or from the scores."""

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from fedloom.errors import WireError
from fedloom.exchange import wire
from fedloom.federation.server import claims
from fedloom.measuring import evaluation
from fedloom.metrics.chosen import Wanted
from fedloom.metrics.ready import made_of, means_behind, needing_scores
from fedloom.problems.base import Problem

Scored = tuple[np.ndarray, np.ndarray]  # scores and labels
Told = Mapping[str, Mapping[str, float]]  # the numbers that each site has told


def read(
    answers: Mapping[str, tuple[str, bytes]],
    classes: int,
    like: jax.ShapeDtypeStruct,
    report: Callable[[str], None],
) -> dict[str, Scored]:
    """The scores of each site with their classes; `like` is what a single row has."""
    found: dict[str, Scored] = {}
    for name, (facts, body) in answers.items():
        try:
            counts = claims.table(facts).get("scored") or (0,) * classes
            if len(counts) != classes:
                raise WireError(f"scores of {classes} classes were due, not of {len(counts)}.")
            shapes = [jax.ShapeDtypeStruct((count, *like.shape), like.dtype) for count in counts]
            parts = wire.decode(body, tuple(shapes))
        except WireError as error:
            report(f"the scores of {name} are refused: {error}")
            continue
        labels = np.repeat(np.arange(classes), [len(part) for part in parts])
        found[name] = np.concatenate([np.asarray(part) for part in parts]), labels
    return found


def together(scored: Mapping[str, Scored]) -> Scored | None:
    """The scores and labels of all sites; None where there are none."""
    if not scored:
        return None
    scores, labels = zip(*scored.values(), strict=True)
    return np.concatenate(scores), np.concatenate(labels)


def pooled(
    wanted: Wanted,
    problem: Problem,
    sites: Sequence[str],
    told: Told,
    scored: Mapping[str, Scored],
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The metrics over all rows with their spread over sites, and those of each site."""
    row: dict[str, float] = {}
    table: dict[str, np.ndarray] = {}
    everyone, means = together(scored), _means(wanted, told)
    for name, metric in wanted.of_scores(problem).items():
        if needing_scores([name]):
            each = {site: metric.function(*own) for site, own in scored.items()}
            whole = metric.function(*everyone) if everyone else np.nan
        else:
            each = {site: made_of(name, own) for site, own in told.items()}
            whole = made_of(name, means)
        table[name] = np.array([each.get(site, np.nan) for site in sites])
        row |= evaluation.of_scores(name, float(whole), table[name], metric.larger_is_better)
    return row, table


def _means(wanted: Wanted, told: Told) -> dict[str, float]:
    """The means over the rows of all sites that have told theirs."""
    told_all = [own for own in told.values() if own.get("rows", np.nan) > 0]
    rows = np.array([own["rows"] for own in told_all])
    if not rows.sum():
        return {}
    return {
        name: float(rows @ [own.get(name, np.nan) for own in told_all] / rows.sum())
        for name in means_behind(wanted.pooled)
    }
