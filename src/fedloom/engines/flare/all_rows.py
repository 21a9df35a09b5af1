"""The server of sites that hold rows: who they are, and what their metrics come to."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.data.clients import Clients
from fedloom.engines import evaluation, wire
from fedloom.engines.evaluation import Wanted
from fedloom.engines.flare.roster import Roster, roster_of
from fedloom.engines.flare.sites import SiteError, Sites, about_states
from fedloom.engines.hub import Hub
from fedloom.errors import FederationError
from fedloom.experiments.settings import Settings

Tree = Any
Facts = dict[str, Any]


class AllRows:
    """What the server knows of the rows of all sites."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.about: Facts = {}  # what the result shall say of all this
        self.found: list[str] = []  # and what is told when it is found out

    def settle(self, there: Mapping[str, Facts]) -> None:
        """Who takes part."""
        self.roster = roster_of(there)

    def restore(self, known: Facts) -> None:
        """Who took part, after a restart."""
        self.roster = Roster(**known)

    def introduction(self) -> tuple[Facts, bytes]:
        """What each site hears of the others."""
        return self.roster._asdict(), b""

    def complete(self, told: Mapping[str, Facts]) -> None:
        """What the sites answered to it: nothing."""

    def holders(self) -> Clients:
        """The sites, as far as the server knows them."""
        return self.roster.bare()

    def choose(self, metrics: Any) -> Wanted:
        """The metrics that a run asks for."""
        wanted = evaluation.choose(metrics, self.settings.problem, False)
        if "auc" in wanted.of_the_whole and len(self.roster.labels or ()) != 2:
            raise FederationError(
                f"metric 'auc' needs labels of 2 classes; the sites have "
                f"{len(self.roster.labels or ())}. Choose another metric."
            )
        return wanted

    def model(self, hub: Hub) -> Tree:
        """The model that the run leaves."""
        vector = hub.algorithm.model(hub.state, hub.fed)
        return hub.fed.layout.unravel(vector)

    def evaluate(
        self, hub: Hub, sites: Sites, wanted: Wanted
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Ask every site how the model does there: the metrics, and those of each site."""
        model = np.asarray(hub.algorithm.model(hub.state, hub.fed))
        answers = sites.ask_each(about_states(hub, "measure", body=wire.encode(model)))
        sites.check_quorum()
        there = [None if isinstance(a, SiteError) else a for a in answers.values()]
        told = [{} if answer is None else json.loads(answer[0]) for answer in there]

        def column(name: str) -> np.ndarray:
            values = [facts.get(name) for facts in told]
            return np.array([np.nan if value is None else value for value in values], float)

        table = {name: column(name) for name in wanted.of_clients}
        row: dict[str, float] = {}
        for name, metric in wanted.at(self.settings.problem).items():
            row |= evaluation.spread(name, table[name], metric.larger_is_better)
        if "objective" in wanted.of_the_whole:
            mean = float(np.asarray(hub.fed.weights, float) @ column("value"))
            row["objective"] = mean + float(hub.fed.regularisation(jnp.asarray(model)))
        if "sparsity" in wanted.of_the_whole:
            row["sparsity"] = float(np.mean(model == 0))
        if "auc" in wanted.of_the_whole:
            row["auc"] = _pooled_auc([a for a in there if a is not None], model.dtype)
        return row, table

    def close(self, hub: Hub, sites: Sites) -> list[str]:
        """Let every site keep a model that is its own; the hub's comes with the result."""
        if self.settings.problem.kind != "personal":
            return []
        model = np.asarray(hub.algorithm.model(hub.state, hub.fed))
        answers = sites.ask_each(about_states(hub, "keep", body=wire.encode(model)))
        return [
            f"{name} could not keep its own model: {answer}"
            for name, answer in answers.items()
            if isinstance(answer, SiteError)
        ]


def _pooled_auc(answers: Sequence[tuple[str, bytes]], dtype: Any) -> float:
    """The AUC over the rows of all sites, from the scores of each class."""
    scores: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for facts, body in answers:
        counts = json.loads(facts)["scored"]
        like = tuple(jax.ShapeDtypeStruct((count,), dtype) for count in counts)
        for label, part in enumerate(wire.decode(body, like)):
            scores.append(np.asarray(part))
            labels.append(np.full(len(part), label))
    return evaluation.auc(np.concatenate(scores), np.concatenate(labels))
