"""The coefficients of a linear vertical model, by the parties and the columns of their tables."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.deploy import linear
from fedloom.deploy.deployed import Deployed
from fedloom.deploy.networks import LINEAR
from fedloom.deploy.shares import Share
from fedloom.errors import DataError
from fedloom.preparation.encoding import Preparation
from fedloom.problems.vertical import LABEL_PARTY, Vertical

if TYPE_CHECKING:
    import polars as pl

PARTY = "party"  # the column that says whose a feature is
ALL = "all parties"  # whose the intercept is: per unit it is of the means of all columns


def coefficients(problem: Vertical, shares: Mapping[str, Share]) -> "pl.DataFrame":
    """A row for each feature of each party, and one for the intercept.

    Args:
        problem: The problem that was solved; linear.
        shares: Of all parties in the order of the run, with their preparations, and of the label
            party.

    Returns:
        The column `party`, then those of `fl.deploy.coefficients`. A vertical model has no
        intercept on standardised columns; per unit it has that which their means make.
    """
    import polars as pl

    check_linear(problem)
    labels = shares[LABEL_PARTY].labels
    classes = None if labels is None else labels.classes
    models, columns, owners = [], [], []
    for name, share in shares.items():
        if name == LABEL_PARTY or share.preparation is None:
            continue
        models.append(np.asarray(share.model).reshape(len(share.model), -1))
        own = share.preparation.in_units
        columns += own
        owners += [name for column in own for _ in column.features]
    weights = np.concatenate(models)
    layer: dict[str, Any] = {"weights": weights, "bias": np.zeros_like(weights[0])}
    whole = Deployed(
        LINEAR,
        [layer],
        weights.shape[:1],
        tuple(map(str, classes or ())),
        problem.link,
        Preparation("", classes, columns, []),
    )
    rows = linear.rows(whole, {})
    return pl.DataFrame(
        [{PARTY: name, **row} for name, row in zip(cycle([*owners, ALL]), rows, strict=False)],
        infer_schema_length=None,
    )


def check_linear(problem: Vertical) -> None:
    """Raise DataError where networks stand between columns and scores."""
    if problem.network is not None:
        raise DataError(
            f"the parties pass their columns through networks, {problem.network!r}, which have no "
            f"coefficients of columns. Leave out network in [problem] for a linear model."
        )
