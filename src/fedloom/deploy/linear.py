"""The coefficients of linear models, by the columns that they belong to.

A number column is standardised before a model sees it, so `coefficient` is for a change by one
standard deviation, and `per unit` for a change by one unit of the column itself; for a word, which
is there or not, the two are the same. The intercept per unit is that of the columns as they are.
So it is for features that `normalise` in [partition] gave mean 0 and deviation 1.
Odds ratios are exp(coefficient): of the second class against the first or, with more classes, of
each class against the first. For counts exp(coefficient) is a rate ratio, for survival a hazard
ratio.

Every word of a column has a coefficient, and no word is the reference: compare two words by the
difference of their coefficients, or by the ratio of their odds ratios.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedloom.deploy.deployed import Deployed
from fedloom.deploy.networks import LINEAR, LOG, LOG_HAZARD, LOGITS, title
from fedloom.errors import DataError

if TYPE_CHECKING:
    import polars as pl

INTERCEPT = "(intercept)"
AT = "at "  # before a site's name: its own coefficient
_RATIOS = {
    **dict.fromkeys(("logit", "softmax", LOGITS), "odds ratio"),
    LOG: "rate ratio",
    LOG_HAZARD: "hazard ratio",
}
_ZERO = 1e-6  # of the largest coefficient: below, a sign is that of a rounding error


def is_linear(model: Deployed) -> bool:
    """Whether a model is one dense layer, so that its numbers are coefficients."""
    return model.model == LINEAR


def coefficients(
    model: Deployed, sites: Mapping[str, Deployed | None] | None = None
) -> "pl.DataFrame":
    """The coefficients of a linear model: a row for each feature, and one for the intercept.

    Args:
        model: The hub's model.
        sites: Models of sites, by name, to show beside the hub's; None for a site without a model,
            whose cells are then empty.

    Returns:
        The columns `feature`, `class` (with more than two classes), `coefficient`, `per unit`, and
        for likelihoods `odds ratio` and `odds ratio per unit` (`rate ratio` for counts,
        `hazard ratio` for survival). With sites also `positive` and `negative`, the numbers of
        sites with that sign, and each site's coefficient, `at SITE`.
    """
    import polars as pl

    return pl.DataFrame(rows(model, sites or {}), infer_schema_length=None)


def rows(model: Deployed, sites: Mapping[str, Deployed | None]) -> list[dict[str, Any]]:
    """The rows of `coefficients`, as plain values."""
    for name, one in {"the model": model, **sites}.items():
        if one is not None and not is_linear(one):
            raise DataError(
                f"{name} is a network with hidden layers or of your own, {title(one.model)}, "
                f"and has no coefficients of columns. Take a linear problem, such as logistic."
            )
    return list(_rows(model, sites))


def _rows(model: Deployed, sites: Mapping[str, Deployed | None]) -> Iterator[dict[str, Any]]:
    ratio = _RATIOS.get(model.link or "")
    names = feature_names(model)
    last = [] if model.link == LOG_HAZARD else [INTERCEPT]  # a baseline hazard has its place
    units = _units(model, len(names))
    whole = _scores(model)
    own = {name: None if one is None else _scores(one) for name, one in sites.items()}
    for k in range(whole.weights.shape[1]):
        several = _which(model, k) if whole.weights.shape[1] > 1 else {}
        every = {name: None if one is None else one.of(k) for name, one in own.items()}
        for j, (name, value) in enumerate(zip([*names, *last], whole.of(k), strict=False)):
            yield {
                "feature": name,
                **several,
                **_values(value, _per_unit(whole.of(k), units, j), ratio),
                **_signs(every, j),
            }


def _which(model: Deployed, k: int) -> dict[str, Any]:
    """Which of several scores is meant."""
    if model.link == LOGITS:
        return {"label": k}
    return {"class": model.labels[k + 1]} if model.link == "softmax" else {}


class _Scores(NamedTuple):
    """The columns of scores that mean something."""

    weights: np.ndarray  # (features, scores)
    bias: np.ndarray  # (scores,)

    def of(self, k: int) -> np.ndarray:
        """All coefficients of a score; the intercept comes last."""
        return np.append(self.weights[:, k], self.bias[k])


def _scores(model: Deployed) -> _Scores:
    """Of classes that share a sum of one, each against the first."""
    (layer,) = model.arrays
    weights, bias = (np.asarray(layer[name], np.float64) for name in ("weights", "bias"))
    if model.link == "softmax":
        return _Scores(weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1])
    return _Scores(weights, bias)


class _Units(NamedTuple):
    mean: np.ndarray
    deviation: np.ndarray


def _units(model: Deployed, count: int) -> _Units:
    """By what features were moved and scaled; those of words were not, in tables."""
    preparation, scaled = model.preparation, model.normalisation
    mean, deviation = np.zeros(count), np.ones(count)
    if scaled is not None:  # of one number for each channel, which are last
        spread = (np.broadcast_to(part, model.features).ravel() for part in scaled)
        mean, deviation = spread
    place = 0
    for column in () if preparation is None else preparation.columns:
        if column.words is None:
            mean[place], deviation[place] = column.mean, column.deviation
        place += len(column.features)
    return _Units(mean, deviation)


def _per_unit(values: np.ndarray, units: _Units, place: int) -> float:
    slopes = values[:-1] / units.deviation
    return float(slopes[place] if place < len(slopes) else values[-1] - slopes @ units.mean)


def _values(value: float, per_unit: float, ratio: str | None) -> dict[str, float]:
    found = {"coefficient": float(value), "per unit": per_unit}
    if ratio is None:
        return found
    with np.errstate(over="ignore"):
        ratios = np.exp([value, per_unit])
    return found | {ratio: float(ratios[0]), f"{ratio} per unit": float(ratios[1])}


def _signs(own: Mapping[str, np.ndarray | None], place: int) -> dict[str, Any]:
    """How many sites have which sign; what is as good as zero at a site has none there."""
    if not own:
        return {}
    counted = [
        np.sign(values[place])
        for values in own.values()
        if values is not None and abs(values[place]) > _ZERO * np.abs(values).max()
    ]
    return {"positive": counted.count(1), "negative": counted.count(-1)} | {
        f"{AT}{site}": None if values is None else float(values[place])
        for site, values in own.items()
    }


def feature_names(model: Deployed) -> list[str]:
    """What the features are called; x0, x1, ... where nobody has named them."""
    if model.preparation is not None:
        return model.preparation.shown_features
    return [f"x{j}" for j in range(int(np.prod(model.features)))]
