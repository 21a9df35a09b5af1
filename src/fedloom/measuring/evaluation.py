"""Metrics, computed between blocks of rounds on the models that clients would deploy.

There are three kinds:

- means over rows, such as accuracy: computed at each client, on its test rows or, if no client has
  any, on its training rows, and then summarised over clients (mean, worst, mean of the worst and of
  the best tenth, standard deviation); the mean over the rows of all clients is given too;
- functions of all scores and labels, such as F1: computed over the rows of all clients together;
  their spread is over the same metric at each client;
- metrics of the federation as a whole: the objective on training rows and its gap (plain, or
  relative to that of the zero model), the distance of the hub's model to a known optimum (plain,
  or relative to the norm of the optimum as "optimality"), and its share of zeros.

If a method has further models, such as an average of its iterates, all metrics are computed for
them too, under names such as "average_accuracy".
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.hub_view import Fed
from fedloom.measuring.objective_value import objective
from fedloom.measuring.optimum import Optimum, optimum_at
from fedloom.metrics.chosen import (
    NEED_OPTIMUM,
    ROWS,
    Wanted,
    by_rows,
    chosen_from,
    shown_without_scores,
)
from fedloom.oracles import AnyOracle
from fedloom.population import Federation, Group
from fedloom.problems.base import Metric, Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.compiling import compiled, reproducible
from fedloom.rounds.parts import Plan, map_group
from fedloom.rows import ClientRows, Rows
from fedloom.types import Array, Held, Tree

Raw = dict[str, Any]  # what was measured of one model
MAIN = ""  # the prefix of the metrics of the model that the hub hands out

OF_THE_WHOLE = ("objective", "sparsity", *NEED_OPTIMUM)


def choose(
    names: Sequence[str] | Mapping[str, Metric | None] | None, problem: Problem, has_optimum: bool
) -> Wanted:
    """Check the names of metrics; None stands for those that are shown."""
    return chosen_from(names, problem, has_optimum, OF_THE_WHOLE)


def choose_at_sites(
    names: Sequence[str] | Mapping[str, Metric | None] | None, problem: Problem
) -> Wanted:
    """As `choose`, for a network; there no default metric needs scores of single rows."""
    return choose(shown_without_scores(problem) if names is None else names, problem, False)


def whole_model(
    algorithm: Algorithm, federation: Federation, hub: Tree, clients: tuple[Tree, ...]
) -> Array:
    """The model that the run leaves, as a vector: the hub's."""
    if type(algorithm).model is Algorithm.model:
        return hub.model
    return _computed_model(algorithm, federation.fed, hub)


@reproducible()
def _computed_model(algorithm: Algorithm, fed: Fed, hub: Tree) -> Array:
    return algorithm.model(hub, fed)  # by one program, and not by one for each operation


def measure(
    algorithm: Algorithm,
    federation: Federation,
    hub: Tree,
    clients: tuple[Tree, ...],
    plan: Plan,
    wanted: Wanted,
) -> dict[str, Raw]:
    """The raw numbers of an evaluation, as one program: an entry for each model of the hub."""
    fed = federation.fed
    models = {MAIN: algorithm.model(hub, fed)} | {
        f"{name}_": model for name, model in algorithm.other_models(hub, fed).items()
    }
    return {
        prefix: _measure_model(algorithm, federation, model, clients, plan, wanted)
        for prefix, model in models.items()
    }


def _measure_model(
    algorithm: Algorithm,
    federation: Federation,
    model: Array,
    clients: tuple[Tree, ...],
    plan: Plan,
    wanted: Wanted,
) -> Raw:
    def of(group: Group, state: Tree) -> dict[str, Held]:
        def at_client(
            common: Tree, f: AnyOracle, measured: ClientRows, client: Tree
        ) -> dict[str, Held]:
            algorithm, model = common
            deployed = algorithm.deployed(model, client, f)
            layout, problem = f.layout, group.problem
            if algorithm.personal_models:
                layout, problem = f.own.layout, f.own.problem
            arrays, metrics = layout.unravel(deployed), wanted.at(problem)

            def of_each(rows: Rows) -> tuple[dict[str, Array], dict[str, Held]]:
                values = {
                    name: jnp.asarray(metric.function(arrays, rows), deployed.dtype)
                    for name, metric in metrics.items()
                }
                if not wanted.pooled:
                    return values, {}
                return values, {"outputs": problem.scores(arrays, rows.x), "targets": rows.y}

            values, scored = measured.each(of_each)
            sound = jnp.isfinite(deployed).all()  # of nan, decisions would be those of a class
            means = {name: measured.mean(value) for name, value in values.items()}
            return {name: jnp.where(sound, mean, jnp.nan) for name, mean in means.items()} | scored

        common = algorithm, model
        return map_group(group, at_client, plan, common, np.arange(group.size), state)

    groups = tuple(
        of(group, state) for group, state in zip(federation.groups, clients, strict=True)
    )
    raw = {"groups": groups, "model": model}
    if {"objective", "gap", "relative_gap"} & set(wanted.of_the_whole):
        raw["objective"] = objective(federation, model, plan, algorithm.dual)
    return raw


def per_client(
    raws: dict[str, Raw], federation: Federation, wanted: Wanted
) -> dict[str, np.ndarray]:
    """Each client's value of each metric, in the order of the clients; nan where it has no rows."""
    table = {
        prefix + name: np.full(federation.fed.n, np.nan)
        for prefix in raws
        for name in (*wanted.of_clients, *wanted.pooled)
    }
    of_scores = wanted.of_scores(federation.fed.problem)
    for prefix, raw in raws.items():
        for group, out in zip(federation.groups, raw["groups"], strict=True):
            sizes = group.measured.sizes
            for name in wanted.of_clients:
                values = np.where(sizes > 0, np.asarray(out[name], float), np.nan)
                table[prefix + name][_members(group)] = values
            for name, metric in of_scores.items():
                each = [_float(name, metric, *own) for own in _scored(group, out)]
                table[prefix + name][_members(group)] = each
    return table


def summarise(
    raws: dict[str, Raw],
    clients: Mapping[str, np.ndarray],
    federation: Federation,
    wanted: Wanted,
    optimum: Optimum | None,
) -> dict[str, float]:
    """One row of the history."""
    row: dict[str, float] = {}
    for prefix, raw in raws.items():
        own = {n: clients[prefix + n] for n in (*wanted.of_clients, *wanted.pooled)}
        summary = _summarise_model(raw, own, federation, wanted, optimum)
        row |= {prefix + name: value for name, value in summary.items()}
    return row


def _summarise_model(
    raw: Raw,
    clients: Mapping[str, np.ndarray],
    federation: Federation,
    wanted: Wanted,
    optimum: Optimum | None,
) -> dict[str, float]:
    row: dict[str, float] = {}
    problem, rows = federation.fed.problem, _rows(federation)
    for name, metric in wanted.at(problem).items():
        row |= of_rows(name, clients[name], rows, metric.larger_is_better, problem)
    everyone = _all_scored(raw, federation) if wanted.pooled else ()
    for name, metric in wanted.of_scores(federation.fed.problem).items():
        whole = _float(name, metric, *everyone)
        row |= of_scores(name, whole, clients[name], metric.larger_is_better)
    vector = np.asarray(raw["model"], float)
    for name in wanted.of_the_whole:
        if name == "sparsity":
            row[name] = float(np.mean(vector == 0))
        elif name == "objective":
            row[name] = float(raw["objective"])
        elif optimum is not None:
            row[name] = optimum.measure(name, vector, raw.get("objective"))
    return wanted.in_order(row)


def of_rows(
    name: str, values: np.ndarray, rows: np.ndarray, larger_is_better: bool, problem: Problem
) -> dict[str, float]:
    """A metric of rows: over clients and over all their rows, first as the problem weighs them.

    A client that has rows has a value; if that is nan, as of a model of its own that is no longer
    finite, then so is the mean.
    """
    values, rows = values[rows > 0], rows[rows > 0]
    total = rows.sum()
    of_all = values[:0] if np.isnan(values).any() else values
    over_clients = spread(name, of_all, larger_is_better)
    with np.errstate(invalid="ignore"):  # a diverged run has infinite losses
        over_rows = {name + ROWS: float(rows @ values / total) if total else math.nan}
    return over_rows | over_clients if by_rows(problem) else over_clients | over_rows


def of_scores(
    name: str, whole: float, values: np.ndarray, larger_is_better: bool
) -> dict[str, float]:
    """A metric of scores: over the rows of all clients, with its spread over those that have it.

    Where it is nan over all rows, as with scores that are not finite, there is no spread either.
    """
    of_all = values[:0] if math.isnan(whole) else values
    return spread(name, of_all, larger_is_better) | {name: whole}


def spread(name: str, values: np.ndarray, larger_is_better: bool) -> dict[str, float]:
    """How a metric is distributed over the clients that have it."""
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        known = np.array([np.nan])
    if not larger_is_better:
        known = known[::-1]
    tenth = max(1, round(len(known) / 10))
    with np.errstate(invalid="ignore"):  # a diverged run has infinite losses
        return {
            name: float(known.mean()),
            f"{name}_worst": float(known[0]),
            f"{name}_worst10": float(known[:tenth].mean()),
            f"{name}_best10": float(known[-tenth:].mean()),
            f"{name}_std": float(known.std()),
        }


def _rows(federation: Federation) -> np.ndarray:
    """How many rows each client is measured on."""
    rows = np.zeros(federation.fed.n)
    for group in federation.groups:
        rows[_members(group)] = group.measured.sizes
    return rows


def _scored(group: Group, out: Mapping[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The scores and labels of each client of a group, without padding."""
    sizes = group.measured.sizes
    scores, labels = np.asarray(out["outputs"]), np.asarray(out["targets"])
    return [(scores[i, :size], labels[i, :size]) for i, size in enumerate(sizes)]


def _all_scored(raw: Raw, federation: Federation) -> Sequence[np.ndarray]:
    """The scores and labels of all clients."""
    groups = zip(federation.groups, raw["groups"], strict=True)
    parts = [own for group, out in groups for own in _scored(group, out)]
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def _float(name: str, metric: Metric, scores: np.ndarray, labels: np.ndarray) -> float:
    """A metric of scores and labels; nan where there are no rows."""
    return metric.number(name, scores, labels) if len(labels) else math.nan


def _members(group: Group) -> slice | list[int]:
    return slice(None) if group.members is None else list(group.members)


def optimum_of(federation: Federation, vector: np.ndarray, plan: Plan, dual: str) -> Optimum:
    """A known solution with its objective."""
    value = compiled(objective, "plan", "dual")
    return optimum_at(vector, lambda w: value(federation, w, plan=plan, dual=dual))


class OfClients:
    """How clients that hold rows are measured."""

    choose = staticmethod(choose)
    whole_model = staticmethod(whole_model)
    measure = staticmethod(measure)
    per_client = staticmethod(per_client)
    summarise = staticmethod(summarise)
    optimum_of = staticmethod(optimum_of)
