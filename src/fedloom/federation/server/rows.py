"""The server of sites that hold rows: who they are, and what their metrics come to."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.wrappers.base import makes_personal
from fedloom.data.clients import Clients
from fedloom.errors import FederationError, FedloomError, WireError
from fedloom.exchange import wire
from fedloom.exchange.hub import Hub
from fedloom.exchange.secure.hub import SecureHub
from fedloom.experiments.settings import Settings
from fedloom.federation import summed_metrics
from fedloom.federation.roster import Roster, roster_of
from fedloom.federation.server import claims, scores
from fedloom.federation.server.claims import UnfitError
from fedloom.federation.server.sites import SiteError, Sites, about_states
from fedloom.federation.summed_metrics import OBJECTIVE
from fedloom.measuring import evaluation
from fedloom.metrics.chosen import Wanted
from fedloom.metrics.ready import needing_scores
from fedloom.population import know
from fedloom.preparation.encoding import plain_encoding
from fedloom.problems.personal import Personal
from fedloom.protocol import Algorithm
from fedloom.types import Tree

Facts = dict[str, Any]


class RowsAtServer:
    """What the server knows of the rows of all sites."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.secure = settings.federation.secure_aggregation
        self.classes: dict[str, list[Any] | None] = {}  # that each site has told
        self.found: list[str] = []  # and what is told when it is found out

    @property
    def about(self) -> Facts:
        """What the result shall say of all this: how new tables become rows."""
        data, roster = self.settings.tables["data"], self.roster
        plain = plain_encoding(
            data["label"], roster.labels, roster.features, data.get("features", ())
        )
        return {"encoding": plain.as_dict()} if roster.features else {}

    def read_hello(self, text: str) -> Facts:
        """What a site says of itself; raises WireError where it makes no sense."""
        return claims.of_rows(text)

    def settle(self, there: Mapping[str, Facts]) -> None:
        """Who takes part; raises UnfitError for a site that does not fit the others."""
        self.roster = roster_of(there)
        self.classes = {name: facts["labels"] for name, facts in there.items()}
        self._check_labels()

    def _check_labels(self) -> None:
        """Where the problem has fewer classes than the sites, one that few sites have is odd."""
        roster = self.roster
        try:
            know(self.settings.problem, roster.bare(), self.settings.run.precision)
        except FedloomError:
            odd = self._odd_one()
            if odd is None:
                raise
            raise UnfitError(odd, "it has a class that the problem does not know of.") from None

    def _odd_one(self) -> str | None:
        """A site with a class that the fewest sites know of, where others are known to more."""
        known: dict[Any, list[str]] = {}
        for name, classes in self.classes.items():
            for label in classes or ():
                known.setdefault(label, []).append(name)
        fewest = min(known.values(), key=len, default=[])
        alike = len({len(names) for names in known.values()}) < 2
        return None if alike else fewest[-1]

    def restore(self, known: Facts) -> None:
        """Who took part, after a restart."""
        self.roster = Roster(**known)

    def introduction(self) -> tuple[Facts, bytes]:
        """What each site hears of the others."""
        return self.roster._asdict(), b""

    def read_begin(self, text: str) -> Facts:
        """What a site answers to it: nothing."""
        return {}

    def complete(self, told: Mapping[str, Facts]) -> None:
        """Everyone has heard of the others."""

    def holders(self) -> Clients:
        """The sites, as far as the server knows them."""
        return self.roster.bare()

    def choose(self, metrics: Sequence[str] | None) -> Wanted:
        """The metrics that a run asks for."""
        wanted = evaluation.choose_at_sites(metrics, self.settings.problem)
        for name in needing_scores(wanted.pooled) if self.secure else ():
            raise FederationError(
                f"metric {name!r} needs scores of single rows, which secure aggregation is to "
                f"hide. Choose another metric, or set federation.secure_aggregation = false."
            )
        if self.secure:
            summed_metrics.check_one_weight(wanted, self.settings.problem)
        if "auc" in wanted.pooled and len(self.roster.labels or ()) != 2:
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
        if isinstance(hub, SecureHub):
            found = summed_metrics.means(hub, wire.encode(model), wanted, self.settings.problem)
            return wanted.in_order(self._of_the_whole(hub, wanted, model, found)), {}
        answers = sites.ask_each(about_states(hub, "measure", wire.encode(model)))
        sites.check_quorum()
        heard = {
            name: answer for name, answer in answers.items() if not isinstance(answer, SiteError)
        }
        told: dict[str, dict[str, float]] = {}
        for name, (text, _) in heard.items():
            try:
                told[name] = claims.metrics(text)
            except WireError as error:
                hub.report(f"the metrics of {name} are refused: {error}")

        def column(name: str) -> np.ndarray:
            return np.array([told.get(site, {}).get(name, np.nan) for site in hub.names], float)

        table = {name: column(name) for name in wanted.of_clients}
        row: dict[str, float] = {}
        problem, rows = self.settings.problem, np.nan_to_num(column("rows"))
        for name, metric in wanted.at(problem).items():
            row |= evaluation.of_rows(name, table[name], rows, metric.larger_is_better, problem)
        scored: dict[str, scores.Scored] = {}
        if needing_scores(wanted.pooled):
            said = {name: heard[name] for name in told}
            scored = scores.read(said, len(self.roster.labels or ()), self._row(model), hub.report)
        if wanted.pooled:
            pooled, own = scores.pooled(wanted, problem, hub.names, told, scored)
            row, table = row | pooled, table | own
        if "objective" in wanted.of_the_whole:
            row[OBJECTIVE] = float(np.asarray(hub.fed.weights, float) @ column(OBJECTIVE))
        return wanted.in_order(self._of_the_whole(hub, wanted, model, row)), table

    def _row(self, model: np.ndarray) -> jax.ShapeDtypeStruct:
        """What the scores of a single row look like."""
        several = self.settings.problem.link == "softmax"
        shape = (len(self.roster.labels or ()),) if several else ()
        return jax.ShapeDtypeStruct(shape, model.dtype)

    def _of_the_whole(
        self, hub: Hub, wanted: Wanted, model: np.ndarray, row: dict[str, float]
    ) -> dict[str, float]:
        """A row with what belongs to the model and the federation as a whole."""
        if "objective" in wanted.of_the_whole:
            penalty = float(hub.fed.regularisation(jnp.asarray(model)))
            row["objective"] = row.pop(OBJECTIVE) + penalty
        if "sparsity" in wanted.of_the_whole:
            row["sparsity"] = float(np.mean(model == 0))
        return row

    def close(self, hub: Hub, sites: Sites) -> list[str]:
        """Let every site keep a model that is its own; the hub's comes with the result."""
        # A wrapper, too, has a way of its own to deploy: that of the method inside.
        own = type(hub.algorithm).deployed is not Algorithm.deployed
        personal = own and makes_personal(hub.algorithm)
        if not personal and not isinstance(self.settings.problem, Personal):
            return []
        model = np.asarray(hub.algorithm.model(hub.state, hub.fed))
        answers = sites.ask_each(about_states(hub, "keep", wire.encode(model)))
        return [
            f"{name} could not keep its own model: {answer}"
            for name, answer in answers.items()
            if isinstance(answer, SiteError)
        ]
