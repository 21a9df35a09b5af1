"""The server of sites whose tables are prepared together: words, scales and gaps are agreed on.

The columns and words that the sites tell make a schema; their counts and sums, which come by the
two exchanges of `preparation.statistics`, make a `Preparation`; and by that each site encodes its
own rows. The same settings in a simulation give the same preparation.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from fedloom.checksums import read_json, write_json
from fedloom.errors import DataError, FederationError, WireError
from fedloom.exchange import wire
from fedloom.exchange.expected import Expected, as_shapes, expected_exchanges
from fedloom.exchange.hub import Hub, Letter, Lost
from fedloom.experiments.settings import Settings
from fedloom.federation.roster import Roster
from fedloom.federation.server import claims
from fedloom.federation.server.claims import UnfitError, check_alike
from fedloom.federation.server.rows import RowsAtServer
from fedloom.federation.server.sites import SiteError, Sites
from fedloom.federation.site.table import as_facts, bare_tables, files_of
from fedloom.population import know
from fedloom.preparation import Preparation, fitting
from fedloom.preparation.proposals import AgreedColumns, agree
from fedloom.preparation.statistics import Counted
from fedloom.preparation.table_problem import TableProblem
from fedloom.preparation.tables import EMPTY, KEY, NUMBER, WORD, Reading
from fedloom.pytrees import to_host

Facts = dict[str, Any]

_FILE = "preparation.json"  # in the folder of a run at the server
_LARGEST_SUM, _LARGEST_SQUARES = 1e45, 1e100  # about a mean of the largest, honest ones are less


class TablesAtServer(RowsAtServer):
    """What the server knows of the tables of all sites."""

    def __init__(self, settings: Settings, run: Path, sites: Sites):
        super().__init__(settings)
        if settings.federation.secure_aggregation:
            raise FederationError(
                "federation.secure_aggregation must be false where raw tables are prepared "
                "together, because their sums are not secured; got true. Prepare tables "
                "beforehand, and leave sites out of [data]."
            )
        self.file = run / _FILE
        self.sites = sites

    @property
    def about(self) -> Facts:
        """What the result shall say of all this: how tables were prepared."""
        return {"preparation": self.preparation.as_dict()}

    def read_hello(self, text: str) -> Facts:
        """What a site says of its table."""
        return claims.of_table(text)

    def settle(self, there: Mapping[str, Facts]) -> None:
        """Agree on a schema, count and sum by it, and make the preparation of it.

        Raises UnfitError for a site that does not fit the others, or does not count as it should.
        """
        names = tuple(there)
        reading = files_of(self.settings).reading
        proposals = {name: there[name]["proposal"] for name in names}
        _check_columns(proposals)
        agreed = _agreed(proposals, reading)
        reports = [{**there[name]["report"], "site": name} for name in names]  # by its certificate
        counts = self._get_ready(names, agreed, [report["rows"] for report in reports])
        hub, missing = self._counted(names, agreed, [report["rows"] for report in reports])
        summed = (to_host(hub.state), to_host(missing))
        preparation = fitting.fitted(agreed, *summed, reports, reading)
        self.preparation = dataclasses.replace(
            preparation,
            bytes_up=hub.bytes_up + sum(len(text.encode()) for text in proposals.values()),
            bytes_down=hub.bytes_down + len(names) * len(json.dumps(as_facts(agreed)).encode()),
        )
        features = len(self.preparation.features)
        tested = any(report["test rows"] for report in reports)
        self.roster = Roster(names, counts, (features,), agreed.classes, tested)
        self.classes = {
            name: json.loads(text)["label"]["classes"] for name, text in proposals.items()
        }
        self._check_labels()
        self.found = [
            f"{features} features of {len(self.preparation.columns)} columns, prepared together"
        ]

    def _get_ready(
        self, names: tuple[str, ...], agreed: AgreedColumns, rows: list[int]
    ) -> tuple[tuple[int, ...], ...]:
        """Tell every site the schema; it answers with its rows of each class."""
        facts = {"schema": as_facts(agreed), "rows": rows}
        answers = self.sites.ask_each(
            {name: ("meet", {"id": i, **facts}, b"") for i, name in enumerate(names)}
        )
        counts = []
        classes = 1 if agreed.classes is None else len(agreed.classes)
        for name, height in zip(names, rows, strict=True):
            answer = answers[name]
            if isinstance(answer, SiteError):
                raise UnfitError(name, f"it does not prepare its table: {answer}")
            try:
                counts.append(claims.counts_of(answer[0], height, classes))
            except WireError as error:
                raise UnfitError(name, str(error)) from None
        return tuple(counts)

    def _counted(
        self, names: tuple[str, ...], agreed: AgreedColumns, rows: list[int]
    ) -> tuple[Hub, Any]:
        """The counts and sums of all sites: a round of the method that takes them."""
        method, place = fitting.statistics_of(agreed), (TableProblem(), bare_tables(rows, agreed))
        self.sites.names = names  # a letter goes to a number
        faults: list[tuple[str, str]] = []
        with jax.enable_x64(True):
            said = expected_exchanges(method, as_shapes(*place, None, "float64"))
            hub = Hub(
                method,
                know(*place, "float64"),
                said,
                SimpleNamespace(send=lambda letters: self._sound(letters, said["round"], rows)),
                names=names,
                judge=lambda name, fault: None if fault is None else faults.append((name, fault)),
            )
            try:
                missing = hub.step()
            except FederationError:
                if not faults:
                    raise
                raise UnfitError(*faults[0]) from None
        return hub, missing

    def _sound(
        self, letters: Mapping[int, Letter], said: Sequence[Expected], rows: Sequence[int]
    ) -> dict[int, bytes | Lost]:
        """Counts and sums as sites send them; one with impossible counts or sums counts as lost."""
        answers = dict(self.sites.send(letters, "meet"))
        for id, answer in answers.items():
            if isinstance(answer, Lost):
                continue
            with contextlib.suppress(WireError):  # which the hub finds out, and says
                told = wire.decode(answer, said[letters[id].exchange - 1].reply, finite=True)
                if not _of_rows(told, rows[id]):
                    answers[id] = Lost("its counts or sums are beyond all reason")
        return answers

    def restore(self, known: Facts) -> None:
        """Who took part, after a restart, and how tables were prepared."""
        super().restore(known)
        self.preparation = Preparation.from_dict(read_json(self.file))

    def introduction(self) -> tuple[Facts, bytes]:
        """What each site hears: who the others are, and the preparation."""
        # What each site has, counts and gaps, is not for the others.
        bare = dataclasses.replace(self.preparation, sites=[])
        return self.roster._asdict(), json.dumps(bare.as_dict()).encode()

    def read_begin(self, text: str) -> Facts:
        """What a site found in its test rows."""
        return {"unknown": claims.unknown_words(text)}

    def complete(self, told: Mapping[str, Facts]) -> None:
        """Every site has encoded its rows, and says what it found in its test rows."""
        for report in self.preparation.sites:
            if told.get(report["site"], {}).get("unknown"):
                report[fitting.UNKNOWN] = told[report["site"]]["unknown"]
        write_json(self.file, self.preparation.as_dict())


def _of_rows(told: Counted | np.ndarray, rows: int) -> bool:
    """Whether a site with so many rows can have these counts and sums, or these squares."""
    if not isinstance(told, Counted):
        return bool(((told >= 0) & (told <= _LARGEST_SQUARES)).all())
    counts = np.concatenate([told.present, told.words, told.missing])
    whole = (counts >= 0) & (counts <= rows) & (counts == np.round(counts))
    return bool(whole.all() and np.abs(told.total).max(initial=0) <= _LARGEST_SUM)


def _agreed(proposals: Mapping[str, str], reading: Reading) -> AgreedColumns:
    """A schema for all; raises UnfitError where it fails by one site, without which it does not."""
    try:
        return agree(proposals, reading)
    except DataError as error:
        for name in proposals:
            others = {other: text for other, text in proposals.items() if other != name}
            if others and _agree(others, reading):
                raise UnfitError(name, f"the others agree without it; with it, {error}") from None
        raise


def _agree(proposals: Mapping[str, str], reading: Reading) -> bool:
    with contextlib.suppress(DataError):
        agree(proposals, reading)
        return True
    return False


def _check_columns(proposals: Mapping[str, str]) -> None:
    """Raise UnfitError for a site whose columns, or what they hold, are not those of most."""
    said = {name: json.loads(text) for name, text in proposals.items()}
    check_alike(
        {name: frozenset(proposal["columns"]) for name, proposal in said.items()},
        lambda own, usual: (
            f"its columns are not those of most sites; see {min(own ^ usual)!r}. Add the column "
            f"there, or add it to ignore in [data]."
        ),
    )
    for column in next(iter(said.values()))["columns"]:
        _check_kinds(column, {name: said[name]["columns"][column]["kind"] for name in said})
    labels = {name: proposal["label"]["kind"] for name, proposal in said.items()}
    _check_kinds("label", {n: WORD if kind == WORD else NUMBER for n, kind in labels.items()})


def _check_kinds(column: str, kinds: Mapping[str, str]) -> None:
    check_alike(
        {name: WORD if kind == KEY else kind for name, kind in kinds.items() if kind != EMPTY},
        lambda own, usual: (
            f"its column {column!r} holds {own}s, and that of most sites {usual}s. Correct the "
            f"values, or add the column to categorical, numeric or ignore in [data]."
        ),
    )
