"""Numbers of raw results, for tests of what pages say of them."""

import functools
import json
import math

import numpy as np

from fedloom.experiments import papers, raw_results, reproduction_table, settings
from tools import reproductions


@functools.cache
def setup_of(name):
    """The settings of a reproduction."""
    return settings.read(papers.available()[name])


@functools.cache
def raw_of(name):
    """All that a reproduction left."""
    return raw_results.read(reproductions.RAW / f"{name}.jsonl")


def page_of(name):
    """A page of the reproductions in one line, as sentences run over several."""
    return " ".join((reproductions.PAGES / f"{name}.md").read_text(encoding="utf-8").split())


def rows_of(name):
    """The rows of a reproduction's table, by method."""
    target = setup_of(name).compare.target
    rows = reproduction_table.rows(raw_of(name), papers.facts(name), target)
    return {row["method"]: row for row in rows}


def points_of(study):
    """What a study of slopes measured, by its series and what is varied."""
    found = json.loads((reproductions.RAW / f"{study}.json").read_text(encoding="utf-8"))
    return {(point["series"], point["x"]): point["value"] for point in found["points"]}


def iterations(rows):
    """Rounds from which on each method stays at the target; infinite where it does not."""
    said = {m: row["rounds to stay"] for m, row in rows.items()}
    return {m: math.inf if value == "not reached" else value for m, value in said.items()}


def mean_of(name, metric, method, at=None):
    """Over the seeds, at a round or at the last evaluation."""
    runs = raw_of(name).runs[method]
    where = -1 if at is None else runs[0].columns["round"].index(at)
    return float(np.mean([run.columns[metric][where] for run in runs]))


def bytes_at(name, method, rounds):
    """Both ways, until a round."""
    columns = raw_of(name).runs[method][0].columns
    where = columns["round"].index(rounds)
    return columns["bytes_up"][where] + columns["bytes_down"][where]
