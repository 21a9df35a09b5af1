"""From the tables of all sites to clients, by exchanges between sites and hub."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.clients import Clients
from fedloom.data.columns import RARE_REASON, tells_of_persons
from fedloom.data.normalising import scales
from fedloom.preparation import gathering, tables
from fedloom.preparation.encoding import Column, Preparation
from fedloom.preparation.gathering import Gather
from fedloom.preparation.proposals import AgreedColumns, agree, check_some_left, propose
from fedloom.preparation.statistics import Moments, Statistics
from fedloom.preparation.table_problem import TableProblem
from fedloom.preparation.tables import Reading, SiteTable
from fedloom.protocol import Algorithm
from fedloom.rounds.once import Played, play_once
from fedloom.rows import Rows

if TYPE_CHECKING:
    import polars as pl

UNKNOWN = "unknown words in test rows"


Engine = Callable[[Algorithm, Clients], Played]


def played_here(algorithm: Algorithm, clients: Clients) -> Played:
    """One round on this machine."""
    return play_once(algorithm, TableProblem(), clients)


def prepare(
    sites: Sequence[SiteTable], reading: Reading, *, engine: Engine = played_here
) -> Clients:
    """Prepare the tables of all sites; `clients.preparation` says how they were encoded.

    Args:
        sites: The tables; no table is ever combined with another.
        reading: How the tables are read.
        engine: Plays a round of a method over clients; by default on this machine.
    """
    by_source = {site.source: propose(site, reading) for site in sites}
    texts = gathering.as_clients(by_source)
    told = engine(Gather(int(texts.sizes.max())), texts)
    schema = agree(dict(zip(by_source, gathering.texts_of(told.hub), strict=True)), reading)
    raw = _clients(sites, [raw_rows(site, schema) for site in sites])
    summed = engine(statistics_of(schema), raw)
    reports = [site.report() for site in sites]
    preparation = fitted(schema, summed.hub, summed.info, reports, reading)
    cost = (told.bytes_up + summed.bytes_up, told.bytes_down + summed.bytes_down)
    preparation = dataclasses.replace(preparation, bytes_up=cost[0], bytes_down=cost[1])
    return _encoded(sites, preparation)


def statistics_of(schema: AgreedColumns) -> Statistics:
    """The method that counts and sums what a schema names."""
    return Statistics(len(schema.numbers), tuple(map(len, schema.words.values())))


def raw_rows(site: SiteTable, schema: AgreedColumns) -> Rows:
    """Numbers with nan for gaps, and places of words with -1: what statistics are taken of."""
    columns = [tables.numbers(site.source, site.train[name]) for name in schema.numbers]
    places = [tables.places(site.train[name], w) for name, w in schema.words.items()]
    height = site.train.height
    return Rows(
        np.stack(columns, axis=1) if columns else np.zeros((height, 0)),
        np.stack(places, axis=1) if places else np.zeros((height, 0), np.int64),
    )


def fitted(
    schema: AgreedColumns,
    moments: Moments,
    missing: np.ndarray,
    reports: list[dict[str, Any]],
    reading: Reading,
) -> Preparation:
    """How rows are encoded; `missing` counts the gaps of each site in each column.

    Words of which most are of a few rows, over all sites, are features only where settings say so.
    """
    names = [*schema.numbers, *schema.words]
    columns = _columns(schema, moments, missing)
    rows = sum(report["rows"] for report in reports)
    rare = {
        column.name: RARE_REASON
        for column in columns
        if not reading.names(column.name)
        and column.counts is not None
        and tells_of_persons(column.counts, rows)
    }
    left_out = schema.left_out | rare
    columns = [column for column in columns if column.name not in rare]
    check_some_left(columns, left_out)
    gaps = [
        {n: int(g) for n, g in zip(names, row, strict=True) if g and n not in rare}
        for row in missing
    ]
    sites = [{**report, "missing values": own} for report, own in zip(reports, gaps, strict=True)]
    return Preparation(
        schema.label,
        schema.classes,
        columns,
        sites,
        left_out=left_out,
        dates={name: list(parts) for name, parts in reading.dates.items()},
        encoding=reading.encoding,
        event=reading.event,
        exposure=reading.exposure,
    )


def _columns(schema: AgreedColumns, moments: Moments, missing: np.ndarray) -> list[Column]:
    gaps = dict(zip([*schema.numbers, *schema.words], missing.sum(0).astype(int), strict=True))
    place, start = 0, 0
    columns = []
    for name, listed in schema.columns.items():
        missing_here = int(gaps[name])
        if listed is None:
            mean, present = float(moments.mean[place]), max(float(moments.present[place]), 1.0)
            deviation = float(np.sqrt(moments.squares[place] / present))
            columns.append(Column(name, missing_here, mean, float(scales(mean, deviation))))
            place += 1
        else:
            counts = moments.words[start : start + len(listed)].astype(int).tolist()
            columns.append(Column(name, missing_here, words=listed, counts=counts))
            start += len(listed)
    return columns


def _encoded(sites: Sequence[SiteTable], preparation: Preparation) -> Clients:
    """Every site encodes its own rows."""
    train = [encoded_rows(site.source, site.train, preparation) for site in sites]
    test = None
    if any(site.test.height for site in sites):
        test = [encoded_rows(site.test_source, site.test, preparation) for site in sites]
        for site, entry in zip(sites, preparation.sites, strict=True):
            entry[UNKNOWN] = unknown_words(site, preparation)
    labels = None if preparation.classes is None else np.asarray(preparation.classes)
    more = {"labels": labels, "preparation": preparation, "left_out": preparation.left_out}
    return _clients(sites, train, test, **more)


def encoded_rows(source: str, frame: "pl.DataFrame", preparation: Preparation) -> Rows:
    """The rows of a table."""
    labels = preparation.encode_labels(source, frame)
    return Rows(preparation.encode(source, frame), labels)


def unknown_words(site: SiteTable, preparation: Preparation) -> dict[str, int]:
    """How many test rows hold words that no site had in training, by column."""
    strange = {c.name: c.unknown_words(site.test[c.name]) for c in preparation.columns}
    return {name: count for name, count in strange.items() if count}


def _clients(
    sites: Sequence[SiteTable], train: list[Rows], test: list[Rows] | None = None, **more: Any
) -> Clients:
    join = functools.partial(map, np.concatenate)
    held_out: dict[str, Any] = {}
    if test is not None:
        held_out = {
            "test": Rows(*join(zip(*test, strict=True))),
            "test_sizes": np.array([len(rows.y) for rows in test]),
        }
    return Clients(
        Rows(*join(zip(*train, strict=True))),
        np.array([len(rows.y) for rows in train]),
        tuple(site.name for site in sites),
        **held_out,
        **more,
    )
