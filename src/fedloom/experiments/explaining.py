"""The coefficients of a linear model, kept with its result, and those of sites beside them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.algorithms.wrappers.base import makes_personal
from fedloom.checksums import understood
from fedloom.data.clients import Clients
from fedloom.deploy import coefficients, hub_model, take, take_all
from fedloom.deploy.deployed import Deployed
from fedloom.deploy.linear import is_linear, rows
from fedloom.errors import DataError, FedloomError
from fedloom.experiments.taking import (
    clients_of,
    is_vertical,
    opened,
    preparation_of,
    problem_of,
    taken,
)
from fedloom.experiments.vertical_runs import coefficients_by_party
from fedloom.measuring.reference import reference
from fedloom.measuring.result import Result
from fedloom.problems import Problem
from fedloom.protocol import Algorithm

if TYPE_CHECKING:
    import polars as pl

NOTED = "coefficients"  # of `Result.about`
_CLOSE = 1e-8  # to which models of single sites are solved


def coefficients_of(
    model: Result | Deployed | str | Path,
    *,
    site: str | None = None,
    local: bool = False,
    trust: Sequence[str] = (),
) -> "pl.DataFrame":
    """The coefficients of a run's linear model, as `fl.deploy.coefficients` has them.

    Those of a vertical model have a column `party` before them.

    Args:
        model: A result, the folder of a run, or the file of a model.
        site: The site whose own model is meant; None: the hub's, with those of sites beside it
            where the method makes some.
        local: Whether to put beside them a model of each site's rows alone; a site without
            training rows of one of the classes has none, and empty cells.
        trust: Code that may be executed although its settings were not run here.
    """
    import polars as pl

    found, where = opened(model)
    if isinstance(found, Result) and site is None and not local and found.about.get(NOTED):
        with understood(Path(where)):
            return pl.DataFrame(found.about[NOTED], infer_schema_length=None)
    if isinstance(found, Result) and is_vertical(found):
        return coefficients_by_party(found, where, site=site, local=local, trust=trust)
    own = taken(model, site=site, trust=trust)
    if not local:
        return coefficients(own)
    if isinstance(found, Deployed):
        raise DataError(f"{where} is a model without data. Give the folder of its run for --local.")
    problem, clients = problem_of(found, where, trust), clients_of(found, where, trust)
    return coefficients(own, fitted_alone(problem, clients))


def noted(
    algorithm: Algorithm, problem: Problem, clients: Clients, result: Result
) -> dict[str, list[dict[str, Any]]]:
    """The coefficients that a result of tables keeps; nothing where the model is not linear."""
    hub = take(algorithm, problem, clients, result)
    if not is_linear(hub):
        return {}
    sites: dict[str, Deployed | None] = {}
    if makes_personal(algorithm):
        own = take_all(algorithm, problem, clients, result)
        sites = dict(zip(clients.names, own, strict=True))
    if not all(map(is_linear, filter(None, sites.values()))):
        return {}
    return {NOTED: rows(hub, sites)}


def of_the_hub(result: Result) -> list[dict[str, Any]]:
    """The coefficients of a result that came from elsewhere; none where it has no linear model."""
    if preparation_of(result) is None:
        return []
    hub = taken(result)
    return rows(hub, {}) if is_linear(hub) else []


def fitted_alone(problem: Problem, clients: Clients) -> dict[str, Deployed | None]:
    """The solution of the problem on each site's rows alone; None where they lack a class.

    Of a class without rows nothing is known, and the others' numbers are no better where it is the
    one that they are compared with.
    """
    fits: dict[str, Deployed | None] = {}
    for i, name in enumerate(clients.names):
        own = clients.of(i)
        if len(np.unique(own.y)) < clients.classes:
            fits[name] = None
            continue
        alone = Clients(own, clients.sizes[i : i + 1], (name,), clients.labels)
        try:
            found = reference(problem, alone, tolerance=_CLOSE)
        except FedloomError as error:
            raise DataError(
                f"{name}: its rows alone give no model: {error} Its rows may be too few, or leave "
                f"no doubt about their classes."
            ) from error
        fits[name] = hub_model(
            problem,
            found.model,
            own.x.shape[1:],
            clients.labels,
            clients.preparation,
            clients.normalisation,
        )
    return fits
