"""Metrics of a vertical federation, whose parties have a model only together.

The score of a row is the sum of the parties' parts, or what a fusion model at the hub makes of
them. Loss and accuracy are means over the test rows if there are some; the objective, its gaps and
the residual |Ax - z| are of the training rows. Only here are the shares of all parties in one
place: to show metrics of a simulation, never for a method to use.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.measuring import party_scores
from fedloom.measuring.optimum import Optimum, optimum_at
from fedloom.metrics.chosen import NEED_OPTIMUM, Wanted, chosen_from
from fedloom.population import Federation, LabelParty
from fedloom.problems.base import Metric, Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.compiling import compiled, reproducible
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Tree

OF_PARTIES = ("features", "contribution")
OF_THE_WHOLE = ("objective", "residual", "sparsity", *NEED_OPTIMUM)


def choose(
    names: Sequence[str] | Mapping[str, Metric | None] | None, problem: Problem, has_optimum: bool
) -> Wanted:
    """Check the names of metrics; None stands for the problem's own."""
    return chosen_from(names, problem, has_optimum, OF_THE_WHOLE)


@reproducible()
def whole_model(
    algorithm: Algorithm, federation: Federation, hub: Tree, clients: tuple[Tree, ...]
) -> Array:
    """The parties' shares, and a fusion model, as one vector in the order of the joint layout."""
    return _join(federation, _shares(algorithm, federation, hub, clients))


def measure(
    algorithm: Algorithm,
    federation: Federation,
    hub: Tree,
    clients: tuple[Tree, ...],
    plan: Plan,
    wanted: Wanted,
) -> dict[str, Any]:
    """The raw numbers of an evaluation, as one program."""
    own = _shares(algorithm, federation, hub, clients)
    out = party_scores.values(federation, own)
    fed = federation.label_party
    tested = None if fed.test_labels is None else _test_scores(federation, own)
    out |= of_scores(fed, wanted, out.pop("fitted"), tested, algorithm.model(hub, fed))
    out["model"] = _join(federation, own)
    out["sparsity"] = (out["model"] == 0).mean()
    out["objective"] = out["smooth"] + fed.regularisation(out["model"])
    return out


def of_scores(
    fed: LabelParty, wanted: Wanted, fitted: Array, tested: Array | None, slack: Array
) -> dict[str, Any]:
    """The metrics that the label party computes from the scores of training and test rows."""
    out: dict[str, Any] = {}
    if "residual" in wanted.of_the_whole:
        if slack.shape != fitted.shape:
            raise ParameterError(
                "metric 'residual' is for methods whose hub keeps the scores of all rows; this one "
                "keeps none. Leave it out."
            )
        out["residual"] = jnp.linalg.norm(fitted - slack)
    scores, labels = fitted, jnp.asarray(fed.labels)
    if tested is not None:
        scores, labels = tested, jnp.asarray(fed.test_labels)
    for name, metric in wanted.at(fed.problem).items():
        # Of scores and labels here.
        out[name] = jnp.asarray(metric.function(scores, labels), scores.dtype).mean()
    if wanted.pooled:
        logistic = fed.problem.link == "logit"  # whose labels are -1 and +1
        out |= {"outputs": scores, "targets": (labels > 0).astype(int) if logistic else labels}
    return out


def per_client(
    raw: dict[str, Any], federation: Federation, wanted: Wanted
) -> dict[str, np.ndarray]:
    """For each party how many features it has, and the size of its part of the scores."""
    widths = [party.train.shape[1] for party in federation.groups]
    return dict(
        zip(OF_PARTIES, (np.array(widths), np.asarray(raw["contributions"], float)), strict=True)
    )


def summarise(
    raw: dict[str, Any],
    clients: Mapping[str, np.ndarray],
    federation: Federation,
    wanted: Wanted,
    optimum: Optimum | None,
) -> dict[str, float]:
    """One row of the history."""
    return row_of(raw, federation.fed.problem, wanted, optimum)


def row_of(
    raw: dict[str, Any], problem: Problem, wanted: Wanted, optimum: Optimum | None
) -> dict[str, float]:
    """One row of the history, computed by the label party alone."""
    row = {name: float(raw[name]) for name in wanted.of_clients}
    for name, metric in wanted.of_scores(problem).items():
        row[name] = metric.number(name, np.asarray(raw["outputs"]), np.asarray(raw["targets"]))
    for name in wanted.of_the_whole:
        if name not in NEED_OPTIMUM:
            row[name] = float(raw[name])
        elif optimum is not None:
            model = np.asarray(raw["model"], float)
            row[name] = optimum.measure(name, model, float(raw["objective"]))
    return wanted.in_order(row)


def optimum_of(federation: Federation, vector: np.ndarray, plan: Plan, dual: str) -> Optimum:
    """A known solution with its objective, and how far it lies below that of the zero model."""
    value = compiled(objective)
    return optimum_at(vector, lambda w: value(federation, w))


def objective(federation: Federation, vector: Array) -> Array:
    """The objective at a model of all parties."""
    return party_scores.smooth(federation, vector) + federation.fed.regularisation(vector)


def _shares(
    algorithm: Algorithm, federation: Federation, hub: Tree, clients: tuple[Tree, ...]
) -> list[Array]:
    model = algorithm.model(hub, federation.fed)
    own = [
        algorithm.deployed(model, jax.tree.map(lambda leaf: leaf[0], state), party.objective(0))
        for party, state in zip(federation.groups, clients, strict=True)
    ]
    return own if federation.label_party.problem.fusion is None else [*own, model]


def _test_scores(federation: Federation, own: Sequence[Array]) -> Array:
    parts = [
        party.objective(0).forward_on(party.test, x)
        for party, x in zip(federation.groups, own, strict=False)
    ]
    return party_scores.scores(federation.label_party, own[len(parts) :], parts)


def _join(federation: Federation, own: Sequence[Array]) -> Array:
    fed = federation.label_party
    return jnp.concatenate([own[i] for i in fed.order])


class OfParties:
    """How parties that hold different columns of the same rows are measured."""

    choose = staticmethod(choose)
    whole_model = staticmethod(whole_model)
    measure = staticmethod(measure)
    per_client = staticmethod(per_client)
    summarise = staticmethod(summarise)
    optimum_of = staticmethod(optimum_of)
