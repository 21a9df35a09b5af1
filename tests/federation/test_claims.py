"""A site that says something else than its part: it is left out and named, and the others go on."""

import json

import polars as pl
import pytest

from federation import raw_tables
from federation.harness import NAMES, federation, lying, refused, settings
from fedloom.cli.prepared import show_preparation
from fedloom.errors import WireError
from fedloom.federation.server import claims
from fedloom.federation.server.claims import MOST_ROWS

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
TWO = {"min_sites": 2}
ROWS = {"counts": [3, 4], "shape": [2], "features": ["a", "b"], "labels": [0, 1], "tested": False}


JUNK = {
    "no JSON": lambda text: "junk",
    "a list": lambda text: "[]",
    "deep": lambda text: "[" * 100_000,
    "nothing": lambda text: "{}",
    "words": lambda text: text.replace("[", '["x", '),
}


@pytest.mark.parametrize("change", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("verb", ["hello", "measure"])
def test_junk_of_one_site_costs_that_site_only(verb, change, tmp_path):
    conductor, wires = federation(tmp_path, settings(algorithm=FEDAVG, federation=TWO))
    lying(wires["lyon"], verb, change)
    result = conductor.run()
    assert result.status == "done"
    if verb == "hello":
        assert result.client_names == ("berlin", "torino")
        assert any("lyon does not take part" in note for note in result.about["notes"])
    else:
        assert result.final["loss"] > 0


@pytest.mark.parametrize(
    "said",
    [
        {"counts": [10**8, 1]},
        {"counts": [MOST_ROWS, 1]},
        {"counts": [-1, 5]},
        {"counts": [True, 5]},
        {"counts": [0, 0]},
        {"counts": [1.5, 5]},
        {"counts": [3]},
        {"counts": "many"},
        {"shape": [10**12]},
        {"shape": [10**6, 10**6]},
        {"features": ["a", "a"]},
        {"features": [1, 2]},
        {"features": ["x" * 2000, "b"]},
        {"labels": [0, "one"]},
        {"labels": [0, 0]},
        {"labels": list(range(10**5)), "counts": [1] * 10**5},
        {"labels": [0, float("nan")]},
        {"labels": None},
        {"tested": "yes"},
        {"tested": None},
    ],
)
def test_what_makes_no_sense_is_refused_before_it_is_used(said):
    claims.of_rows(json.dumps(ROWS))
    with pytest.raises(WireError, match="was due, and it said something else"):
        claims.of_rows(json.dumps(ROWS | said))


def test_a_text_that_is_too_long_is_not_read():
    with pytest.raises(WireError, match="too long"):
        claims.table(" " * (17 * 2**20))


def test_a_hundred_million_rows_are_not_believed(tmp_path):
    conductor, wires = federation(tmp_path, settings(algorithm=FEDAVG, federation=TWO))
    lying(
        wires["lyon"], "hello", lambda text: json.dumps(json.loads(text) | {"counts": [10**8] * 2})
    )
    assert conductor.run().client_names == ("berlin", "torino")


@pytest.mark.parametrize(
    "change,complaint",
    [
        ({"features": ["x0", "weight", "x2"]}, "its columns are not those of most sites; see 'wei"),
        (
            {"features": ["x0", "x2", "x1"]},
            "its columns are not those of most sites; see 'their order'",
        ),
        ({"labels": ["no", "yes"]}, "its labels are words"),
        ({"labels": None, "counts": [11]}, "its labels are numbers to predict"),
        ({"labels": [0, 7]}, "it has a class that the problem does not know of"),
    ],
)
def test_a_site_unlike_most_is_left_out(change, complaint, tmp_path):
    conductor, wires = federation(tmp_path, settings(algorithm=FEDAVG, federation=TWO))
    lying(wires["lyon"], "hello", lambda text: json.dumps(json.loads(text) | change))
    result = conductor.run()
    assert result.client_names == ("berlin", "torino")
    assert any(f"lyon does not take part: {complaint}" in n for n in result.about["notes"])


def test_where_all_are_needed_the_run_says_who_does_not_fit(tmp_path):
    conductor, wires = federation(tmp_path, settings(algorithm=FEDAVG))
    lying(wires["lyon"], "hello", JUNK["a list"])
    refused(conductor, "lyon does not take part: a table of facts was due")


TABLES = {
    "no proposal": ("hello", lambda text: json.dumps({"report": json.loads(text)["report"]})),
    "rows": ("hello", lambda text: text.replace('"rows": ', '"rows": 9')),
    "kinds": ("hello", lambda text: text.replace("word", "verb")),
    "numbers for words": ("hello", lambda text: text.replace("word", "number")),
    "counts": ("meet", lambda text: text.replace("[", "[9, ")),
    "begin": ("begin", lambda text: '{"unknown": 3}'),
}


@pytest.mark.parametrize("verb,change", TABLES.values(), ids=TABLES)
def test_a_table_that_makes_no_sense_costs_that_site_only(verb, change, tmp_path):
    conductor, wires = raw_tables.two_needed(tmp_path)
    lying(wires["lyon"], verb, change)
    result = conductor.run()
    assert result.status == "done" and result.final["sites"] == 2
    assert any("lyon does not take part" in note for note in result.about["notes"])


def test_a_table_with_other_columns_costs_that_site_only(tmp_path):
    conductor, _ = raw_tables.two_needed(tmp_path, features=["age", "ward", "dose", "weight"])
    file = tmp_path / "tables" / "lyon.csv"
    pl.read_csv(file).rename({"dose": "weight"}).write_csv(file)
    result = conductor.run()
    assert result.client_names == ("berlin", "torino")
    assert any(
        "lyon does not take part: its columns are not those of most sites; see 'dose'" in n
        for n in conductor.notes
    )


def test_a_site_drives_no_terminal_and_speaks_in_no_other_name(tmp_path, capsys):
    """What a site says is shown to whoever submitted the run."""
    conductor, wires = raw_tables.two_needed(tmp_path)
    file = tmp_path / "tables" / "lyon.csv"
    file.write_text(file.read_text().replace("red", "\x1b]0;owned\x07red"))
    lying(wires["lyon"], "hello", lambda text: text.replace('"site": "lyon"', '"site": "nobody"'))
    result = conductor.run()
    assert [site["site"] for site in result.about["preparation"]["sites"]] == list(NAMES)
    show_preparation(result)
    shown = capsys.readouterr().out
    assert "owned" in shown and shown.replace("\n", "").isprintable()
