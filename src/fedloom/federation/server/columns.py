"""The server of parties that hold columns: it is the label party, and finds the people in common.

In private it sends each party its own ids encrypted, and learns which of them the party has; then
it tells all parties the ids in common, in the order of the rows.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.wrappers.base import layers
from fedloom.checksums import read_json, write_json
from fedloom.data.alignment import joined_report, places, texts
from fedloom.data.intersection import Asking
from fedloom.data.parties import Parties
from fedloom.deploy.shares import SHARE, Labels, Share, write_share
from fedloom.errors import FederationError, WireError
from fedloom.exchange import wire
from fedloom.exchange.hub import Hub
from fedloom.experiments.settings import Settings
from fedloom.federation.policy import POLICY
from fedloom.federation.policy_file import read_policy
from fedloom.federation.roster import PartyRoster, packed, unpacked
from fedloom.federation.server import claims
from fedloom.federation.server.sites import SiteError, Sites, about_states
from fedloom.federation.site.columns import joining_of
from fedloom.measuring import joint_evaluation, party_scores
from fedloom.metrics.chosen import Wanted
from fedloom.population import LabelParty
from fedloom.preparation.joining import labels_of
from fedloom.problems.vertical import LABEL_PARTY
from fedloom.types import Array, Tree

Facts = dict[str, Any]

_OF_SHARES = ("penalty", "regularisation", "zeros", "size")
_PEOPLE = "people.json"  # in the folder of a run at the server: whom it is about


class ColumnsAtServer:
    """What the label party knows of the columns of all parties."""

    def __init__(self, settings: Settings, home: Path, run: Path, sites: Sites):
        federation = settings.federation
        for name in ("min_sites", "fresh_if_stale"):
            if getattr(federation, name):
                raise FederationError(
                    f"federation.{name} must be left out in a vertical run, which needs all "
                    f"parties with their states; got {getattr(federation, name)}. Remove it."
                )
        self.secure = federation.secure_aggregation
        self.settings = settings
        self.joining = joining_of(settings)
        self.people = run / _PEOPLE
        self.share = home / "shares" / run.name / SHARE
        self.sites = sites
        if not (home / POLICY).exists():
            raise FederationError(
                "the server of a vertical run is the label party's, and it has no labels here. "
                "Start it with `fedloom serve KIT --data FILE`."
            )
        policy = read_policy(home)
        self.frame = self.joining.read(Path(policy.data_of(home)))
        policy.check_id(self.joining.id)
        policy.check_label(self.joining.label)
        method = settings.tables["algorithm"]["key"]
        telling = any(layer.tells_labels for layer in layers(settings.algorithm))
        if telling and method not in policy.methods:
            raise FederationError(
                f"{method} sends the labels of each batch to all parties, and the label party has "
                f"not allowed it. Use split_training or ef_vfl, or add {method!r} to methods in "
                f"{home / POLICY}."
            )
        self.policy = policy
        for column in (self.joining.id, self.joining.label):
            if column not in self.frame.columns:
                raise FederationError(
                    f"the label party's table must have the column {column!r}; it has "
                    f"{', '.join(self.frame.columns)}. Start the server with --data."
                )
        self.known_ids = texts("the label party", self.frame[self.joining.id].to_list())
        self.about: Facts = {}
        self.found: list[str] = []

    def read_hello(self, text: str) -> Facts:
        """How many people a party knows."""
        return claims.of_party(text)

    def settle(self, there: Mapping[str, Facts]) -> None:
        """Find the people in common, and who of them is held out."""
        common = np.ones(len(self.known_ids), bool)
        for found in self._found(tuple(there)).values():
            common &= found
        if not common.any():
            raise FederationError(
                f"the label party and {', '.join(there)} have no id in common. Check the column "
                f"{self.joining.id!r}."
            )
        train, test = self.joining.divide(int(common.sum()))
        people = self.known_ids[common][np.concatenate([train, test])]
        dropped = {"the label party": len(self.known_ids) - len(people)}
        dropped |= {name: facts["people"] - len(people) for name, facts in there.items()}
        facts = {"ids": people.tolist(), "report": joined_report(len(people), dropped)}
        write_json(self.people, facts)
        classes = self._labels(people)[1]
        numbers = (len(train), len(test), 0 if classes is None else len(classes))
        self.roster = PartyRoster(tuple(there), *numbers)
        self._read_people()

    def _found(self, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Which of the label party's own ids each party has."""
        private = self.joining.join == "private"
        asking = {name: Asking(self.known_ids) for name in names} if private else {}
        answers = self.sites.ask_each(
            {name: ("meet", {}, asking[name].request() if private else b"") for name in names}
        )
        found = {}
        for name, answer in answers.items():
            if isinstance(answer, SiteError):
                raise FederationError(f"{name} does not join: {answer}")
            facts, body = answer
            try:
                if private:
                    cut = claims.number_of(facts, "cut", len(body))
                    found[name] = asking[name].found((body[:cut], body[cut:]))
                else:
                    found[name] = np.isin(self.known_ids, unpacked(body))
            except WireError as error:
                raise FederationError(f"{name} does not join as it should: {error}") from None
        return found

    def restore(self, known: Facts) -> None:
        """Who took part, after a restart."""
        self.roster = PartyRoster(**known)
        self._read_people()

    def _read_people(self) -> None:
        facts = read_json(self.people)
        self.ids = np.array(facts["ids"])
        if not np.isin(self.ids, self.known_ids).all():
            raise FederationError(
                "the label party's table lacks people whom the run began with. Bring the table "
                "back, or submit the run anew without --resume."
            )
        self.about, self.found = {"alignment": facts["report"]}, [facts["report"]]

    def introduction(self) -> tuple[Facts, bytes]:
        """What each party hears: who the others are, and the people in their order."""
        return self.roster._replace(widths=())._asdict(), packed(self.ids)

    def read_begin(self, text: str) -> Facts:
        """How many features a party has."""
        return {"width": claims.number_of(text, "width", claims.MOST_FEATURES)}

    def complete(self, told: Mapping[str, Facts]) -> None:
        """Each party has answered with the number of its features."""
        names = self.roster.names
        known = dict(zip(names, self.roster.widths, strict=False))
        known |= {name: facts["width"] for name, facts in told.items()}
        if len(known) == len(names):
            self.roster = self.roster._replace(widths=tuple(known[name] for name in names))

    def holders(self) -> Parties:
        """The parties, without their columns but with the labels."""
        y, words = self._labels(self.ids)
        rows, bare = self.roster.rows, self.roster.bare()
        return dataclasses.replace(
            bare, y=y[:rows], labels=words, test_y=y[rows:] if self.roster.tested else None
        )

    def _labels(self, people: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Labels as numbers, and what classes are called, within the label party's own policy."""
        column = self.frame[self.joining.label][places(self.known_ids, people)]
        y, words = labels_of(column, self.joining.regression)
        self.policy.check_classes(self.joining.label, words)
        return y, words

    def choose(self, metrics: Sequence[str] | None) -> Wanted:
        """The metrics that a run asks for."""
        wanted = joint_evaluation.choose(metrics, self.settings.problem, False)
        if self.secure and wanted.of_the_whole:
            raise FederationError(
                f"metric {wanted.of_the_whole[0]!r} needs what secure aggregation hides from the "
                f"label party. Leave it out, or set federation.secure_aggregation = false."
            )
        return wanted

    def model(self, hub: Hub) -> dict[str, Tree]:
        """The fusion model, where there is one: shares stay with their parties."""
        fed = hub.fed
        assert isinstance(fed, LabelParty)
        layout = fed.fusion_layout
        if layout is None:
            return {}
        return {LABEL_PARTY: layout.unravel(hub.algorithm.model(hub.state, fed))}

    def evaluate(
        self, hub: Hub, sites: Sites, wanted: Wanted
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Ask every party for its part of the scores; the label party adds up and looks.

        With secure aggregation nobody is asked, because a part alone would tell what the sums hide.
        The scores are then the hub's own, of the training rows. Nor is anybody asked for nothing.
        """
        fed = hub.fed
        assert isinstance(fed, LabelParty)
        slack = hub.algorithm.model(hub.state, fed)
        own = {joint_evaluation.OF_PARTIES[0]: np.array(self.roster.widths)}
        if not wanted.names:
            return {}, own
        if self.secure:
            raw = joint_evaluation.of_scores(fed, wanted, slack, None, slack)
            return joint_evaluation.row_of(raw, fed.problem, wanted, None), own
        answers = sites.ask_each(about_states(hub, "measure"))
        sites.check_quorum()
        told, parts = [], []
        for name, answer in answers.items():
            if isinstance(answer, SiteError):
                raise FederationError(f"{name} does not say how its share does: {answer}")
            try:
                told.append(claims.metrics(answer[0], _OF_SHARES))
                parts.append(wire.decode(answer[1], _parts(fed)))
            except WireError as error:
                raise FederationError(f"the metrics of {name} make no sense: {error}") from None
        fusion = [] if fed.fusion_layout is None else [slack]

        def scores(of: str) -> Array:
            found = [jnp.asarray(part[of]) for part in parts]
            return party_scores.scores(fed, fusion, found)

        fitted = scores("fitted")
        tested = None if fed.test_labels is None else scores("tested")
        raw = joint_evaluation.of_scores(fed, wanted, fitted, tested, slack)
        penalty = sum(facts["penalty"] + facts["regularisation"] for facts in told)
        penalty += float(party_scores.fusion_penalty(fed, fusion))
        raw["objective"] = float(fed.loss.value(fitted)) + penalty
        zeros = sum(f["zeros"] for f in told) + sum(int((w == 0).sum()) for w in fusion)
        raw["sparsity"] = zeros / (sum(f["size"] for f in told) + sum(w.size for w in fusion))
        contributions = [float(np.linalg.norm(part["fitted"])) for part in parts]
        table = (np.array(self.roster.widths), np.array(contributions))
        row = joint_evaluation.row_of(raw, fed.problem, wanted, None)
        return row, dict(zip(joint_evaluation.OF_PARTIES, table, strict=True))

    def close(self, hub: Hub, sites: Sites) -> list[str]:
        """Let every party keep its share of the model, of which there is no other copy.

        The label party's has the fusion network, and what the classes are called.
        """
        words = self._labels(self.ids)[1]
        labels = Labels(None if words is None else words.tolist())
        names = tuple(self.roster.names)
        write_share(self.share, Share(self.model(hub).get(LABEL_PARTY, {}), names, labels=labels))
        answers = sites.ask_each(about_states(hub, "keep"))
        sites.check_quorum()
        for name, answer in answers.items():
            if isinstance(answer, SiteError):
                raise FederationError(
                    f"{name} could not keep its share of the model: {answer}. Fix that, then go "
                    f"on with --resume."
                )
        return []


def _parts(fed: LabelParty) -> dict[str, jax.ShapeDtypeStruct]:
    """What a party's parts of the scores look like."""
    fitted = fed.zero_part()
    parts = {"fitted": jax.ShapeDtypeStruct(fitted.shape, fitted.dtype)}
    if fed.test_labels is not None:
        shape = (len(fed.test_labels), *fitted.shape[1:])
        parts["tested"] = jax.ShapeDtypeStruct(shape, fitted.dtype)
    return parts
