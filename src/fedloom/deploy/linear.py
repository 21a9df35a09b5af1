"""The coefficients of linear models, by the columns that they belong to.

A number column is standardised before a model sees it, so `coefficient` is for a change by one
standard deviation, and `per unit` for a change by one unit of the column itself; a word is there or
not, and both are the same. The intercept per unit is that of the columns as they are. Odds ratios
are exp(coefficient): of the second class against the first or, of more classes, of each against the
first.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedloom.deploy.deployed import Deployed
from fedloom.deploy.networks import LINEAR
from fedloom.errors import DataError
from fedloom.preparation import Preparation

if TYPE_CHECKING:
    import polars as pl

INTERCEPT = "(intercept)"
AT = "at "  # before a site's name: its own coefficient


def is_linear(model: Deployed) -> bool:
    """Whether a model is one dense layer, so that its numbers are coefficients."""
    return model.model == LINEAR


def coefficients(model: Deployed, sites: Mapping[str, Deployed] | None = None) -> "pl.DataFrame":
    """A row for each feature of a linear model, and the intercept.

    Args:
        model: The hub's model.
        sites: Models of sites by name, whose coefficients and signs stand beside the hub's.

    Returns:
        The columns `feature`, `class` (with more than two), `coefficient`, `per unit`,
        `odds ratio` and `odds ratio per unit` (of a likelihood) and, with sites, how many have
        `positive` and `negative` coefficients, and each one's own, `at SITE`.
    """
    import polars as pl

    return pl.DataFrame(rows(model, sites or {}), infer_schema_length=None)


def rows(model: Deployed, sites: Mapping[str, Deployed]) -> list[dict[str, Any]]:
    """The rows of `coefficients`, as plain values."""
    for name, one in {"the model": model, **sites}.items():
        if not is_linear(one):
            raise DataError(
                f"{name} is a network with hidden layers or of your own, {one.model!r}, and has no "
                f"coefficients of columns. Take a linear problem, such as logistic."
            )
    return list(_rows(model, sites))


def _rows(model: Deployed, sites: Mapping[str, Deployed]) -> Iterator[dict[str, Any]]:
    odds = model.link in ("logit", "softmax")
    names = feature_names(model)
    units = _units(model.preparation, len(names))
    whole, own = _scores(model), {name: _scores(one) for name, one in sites.items()}
    for k in range(whole.weights.shape[1]):
        several = {"class": model.labels[k + 1]} if whole.weights.shape[1] > 1 and odds else {}
        every = {name: one.of(k) for name, one in own.items()}
        for j, (name, value) in enumerate(zip([*names, INTERCEPT], whole.of(k), strict=True)):
            yield {
                "feature": name,
                **several,
                **_values(value, _per_unit(whole.of(k), units, j), odds),
                **_signs({site: values[j] for site, values in every.items()}),
            }


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


def _units(preparation: Preparation | None, count: int) -> _Units:
    """By what features were moved and scaled; those of words were not."""
    mean, deviation = np.zeros(count), np.ones(count)
    place = 0
    for column in () if preparation is None else preparation.columns:
        if column.words is None:
            mean[place], deviation[place] = column.mean, column.deviation
        place += len(column.features)
    return _Units(mean, deviation)


def _per_unit(values: np.ndarray, units: _Units, place: int) -> float:
    slopes = values[:-1] / units.deviation
    return float(slopes[place] if place < len(slopes) else values[-1] - slopes @ units.mean)


def _values(value: float, per_unit: float, odds: bool) -> dict[str, float]:
    found = {"coefficient": float(value), "per unit": per_unit}
    if not odds:
        return found
    with np.errstate(over="ignore"):
        ratios = np.exp([value, per_unit])
    return found | {"odds ratio": float(ratios[0]), "odds ratio per unit": float(ratios[1])}


def _signs(own: Mapping[str, float]) -> dict[str, Any]:
    if not own:
        return {}
    counts = {
        "positive": sum(value > 0 for value in own.values()),
        "negative": sum(value < 0 for value in own.values()),
    }
    return {name: int(count) for name, count in counts.items()} | {
        f"{AT}{site}": float(value) for site, value in own.items()
    }


def feature_names(model: Deployed) -> list[str]:
    """What the features are called; x0, x1, ... where nobody has named them."""
    if model.preparation is not None:
        return model.preparation.shown_features
    return [f"x{j}" for j in range(int(np.prod(model.features)))]
