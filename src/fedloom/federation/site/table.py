"""A site whose table is prepared together with those of the others: words, scales, gaps.

What it says of its table, its counts and its sums are those of `fedloom.preparation`. The hub makes
a `Preparation` of them, by which the site encodes its own rows.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.data.clients import Clients
from fedloom.errors import DataError, RefusedError, WireError
from fedloom.exchange import wire
from fedloom.exchange.expected import as_shapes, expected_exchanges, one_with_rows
from fedloom.exchange.site import Site
from fedloom.experiments import building
from fedloom.experiments.settings import Settings
from fedloom.federation.letters import letter_from
from fedloom.federation.policy import Policy
from fedloom.federation.roster import Roster, check_listed, check_numbers_of_rows
from fedloom.federation.site import protection
from fedloom.federation.site.rows import RowsAtSite
from fedloom.federation.site.summed_rows import note_told_rows
from fedloom.population import Group
from fedloom.preparation import Preparation, SiteFiles, fitting
from fedloom.preparation.proposals import AgreedColumns, propose
from fedloom.preparation.table_problem import TableProblem
from fedloom.preparation.tables import (
    EMPTY,
    MOST_WORDS,
    NUMBER,
    WORD,
    Reading,
    check_no_key,
    kind_of,
    places,
)
from fedloom.rows import Rows

Facts = dict[str, Any]


class TableAtSite(RowsAtSite):
    """A site's own table, in a run."""

    counting: Site  # answers while counts and sums are taken
    preparation: Preparation  # once all have agreed

    def __init__(self, name: str, kit: Path, policy: Policy, settings: Settings):
        bounded = policy.clip is not None or policy.epsilon is not None
        if bounded or settings.federation.secure_aggregation:
            raise RefusedError(
                "preparing raw tables needs exact sums of this site, so it cannot be combined with "
                "clip or epsilon in its policy, or with secure_aggregation. Prepare the tables "
                "beforehand, and leave `sites` out of [data]."
            )
        policy.check_scores(settings.metrics)
        self.settings = settings
        self.kept = kit / "models"
        self.least = policy.least_count
        self.min_batch = policy.min_batch
        files = files_of(settings)
        check_single(files.reading)
        policy.check_label(files.label)
        # Before the table is read: whether a column holds numbers or dates is told by a refusal.
        named = [*files.features, *files.categorical, *files.numeric, *(files.dates or ())]
        policy.check_features(files.reading.raw(named))
        test = None if policy.test is None else Path(policy.test)
        self.table = files.table(name, Path(policy.data_of(kit)), test)
        policy.check_rows(self.table.train.height)
        columns = self.table.features(files.reading)
        policy.check_table(files.reading.raw(columns))
        for column in columns:  # the job says so, and its words would leave
            series = self.table.train[column]
            if files.reading.names(column) and kind_of(name, series, files.reading) == WORD:
                check_no_key(self.table.source, series)
        self.reading = files.reading
        self.proposal = propose(self.table, files.reading, self.least)
        policy.check_classes(files.label, json.loads(self.proposal)["label"]["classes"])
        rows = self.table
        if files.dates:  # in the place of whose columns stand parts of them
            plain = dataclasses.replace(files, dates=None, features=(), numeric=())
            rows = plain.table(name, Path(policy.data_of(kit)), test)
        note_told_rows(kit, Path(policy.data_of(kit)), rows.train)

    def hello(self) -> Facts:
        """The columns with their words, and how many rows there are."""
        report = self.table.report()
        for name in ("test rows", "without label"):
            report[name] = protection.at_least(report[name], self.least)
        return {"proposal": self.proposal, "report": report}

    def meet(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Get ready to count, or answer a letter of the method that counts."""
        with jax.enable_x64(True):
            if "schema" not in facts:
                return {}, wire.encode(self.counting.answer(letter_from(facts, body, 1)))
            agreed = self._checked(AgreedColumns(**facts["schema"]))
            check_numbers_of_rows(facts["id"], facts["rows"], self.table.train.height)
            bare = bare_tables(facts["rows"], agreed)
            method = fitting.statistics_of(agreed)
            rows = protection.without_rare(fitting.raw_rows(self.table, agreed), self.least)
            place = (TableProblem(), bare)
            group = one_with_rows(*place, facts["id"], rows, None, None, "float64")
            expected = expected_exchanges(method, as_shapes(*place, None, "float64"))
            self.counting = Site(facts["id"], method, group, expected, seed=0)
        return {"counts": self._counts(agreed.label, agreed.classes)}, b""

    def _counts(self, label: str, classes: list[Any] | None) -> list[int]:
        """How many rows there are of each class, as far as it is told."""
        if classes is None:
            return [self.table.train.height]
        own = places(self.table.train[label], [str(name) for name in classes])
        return protection.told_counts(np.bincount(own, minlength=len(classes)).tolist(), self.least)

    def begin(self, id: int, facts: Facts, body: bytes) -> tuple[Clients, Group, Facts]:
        """Encode the own rows as has been agreed, and take a place among the sites."""
        roster = Roster(**facts)
        bare = roster.bare()
        self.preparation = preparation = self._checked_whole(_preparation_in(body))
        counts = self._counts(preparation.label, preparation.classes)
        check_listed(roster, id, counts, preparation.classes, (len(preparation.features),))
        table, test = self.table, None
        train = fitting.encoded_rows(table.source, table.train, preparation)
        if table.test.height:
            test = fitting.encoded_rows(table.test_source, table.test, preparation)
        strange = fitting.unknown_words(table, preparation)
        unknown = {name: protection.at_least(n, self.least) for name, n in strange.items()}
        group = self._group(bare, id, train, test, roster.tested)
        return bare, group, {"unknown": unknown}

    def encoding(self) -> Preparation:
        """How new tables become rows as all sites' did."""
        return self.preparation

    def _checked_whole(self, prepared: Preparation) -> Preparation:
        """The hub's preparation, which must read the table as the settings say."""
        words = {column.name: column.words for column in prepared.columns}
        self._checked(AgreedColumns(prepared.label, prepared.classes, words, prepared.left_out))
        dates = {name: list(parts) for name, parts in self.reading.dates.items()}
        said = (prepared.dates, prepared.encoding, prepared.event, prepared.exposure)
        if said != (dates, self.reading.encoding, None, None) or prepared.complete:
            raise RefusedError("the hub would read tables otherwise than the settings say.")
        return prepared

    def _checked(self, agreed: AgreedColumns) -> AgreedColumns:
        """What the hub made of the proposals must be about what this site has proposed."""
        proposed = json.loads(self.proposal)
        own, classes = proposed["columns"], proposed["label"]["classes"]
        fits = agreed.label == self.reading.label and agreed.columns.keys() <= own.keys()
        fits = fits and own.keys() - agreed.columns.keys() == agreed.left_out.keys()
        # Classes as numbers would tell how many rows have each, and numbers as classes which occur.
        fits = fits and (classes is None) == (agreed.classes is None)
        fits = fits and set(classes or ()) <= set(agreed.classes or ())
        for name in own.keys() & agreed.columns.keys():
            said, listed = own[name], agreed.columns[name]
            if said["kind"] == WORD:
                fits = fits and listed is not None and len(listed) <= MOST_WORDS
                fits = fits and set(said["words"]) <= set(listed or ())
            elif said["kind"] == NUMBER:
                fits = fits and listed is None
            else:
                fits = fits and said["kind"] == EMPTY  # keys and dates are told to nobody
        if not fits:
            raise RefusedError("what the hub has agreed on is not what this site has proposed.")
        return agreed


def _preparation_in(body: bytes) -> Preparation:
    """The preparation that the hub has sent; anything else is refused."""
    try:
        return Preparation.from_dict(json.loads(body))
    except (ValueError, RecursionError, DataError):
        raise WireError("a preparation was due, and something else came.") from None


def check_single(reading: Reading) -> None:
    """Refuse labels that are pairs, of which no shape has been agreed on over a network yet."""
    if len(reading.targets) > 1:
        raise RefusedError(
            "labels that are pairs, by event or exposure in [data], are for simulations; over a "
            "network they are not known yet. Simulate, or use a label of one value."
        )


def files_of(settings: Settings) -> SiteFiles:
    """How [data] wants tables to be read."""
    return building.construct(SiteFiles, settings.tables["data"], settings.place / "data")


def bare_tables(rows: list[int], agreed: AgreedColumns) -> Clients:
    """The sites' columns of numbers and of words, without the values."""
    total = sum(rows)
    x = np.broadcast_to(np.float64(0), (total, len(agreed.numbers)))
    y = np.broadcast_to(np.int64(0), (total, len(agreed.words)))
    names = tuple(f"site {i}" for i in range(len(rows)))
    return Clients(Rows(x, y), np.array(rows), names)


def as_facts(agreed: AgreedColumns) -> Facts:
    """A schema as JSON has it."""
    return dataclasses.asdict(agreed)
