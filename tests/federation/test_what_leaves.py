"""Values of a site's table that a submitter asks for by settings alone, and what leaves of them."""

import json

import numpy as np
import polars as pl
import pytest

from federation.harness import hello, refused, settings
from federation.hospitals import FEDAVG, PATIENTS, chosen, hospitals, rare, raw
from fedloom.errors import RefusedError
from fedloom.exchange import wire
from fedloom.federation.site import protection
from fedloom.rows import Rows

ATTACKS = {
    "all columns, with names": chosen({"features": []}),
    "names as a feature": chosen({"features": ["age", "name"]}),
    "names as categories": chosen({"categories": {"name": PATIENTS}}),
    "names as the label": chosen({"label": "name"}, problem={"kind": "multinomial"}),
    "ages as the label": chosen({"label": "age"}, problem={"kind": "multinomial"}),
    "ages to predict": chosen(
        {"label": "age", "regression": True}, problem={"kind": "least_squares"}
    ),
    "rows without gaps, for how many there are": chosen({"missing": "drop"}),
    "rows with gaps, for which columns have some": chosen({"missing": "fill"}),
    "whether names are numbers": raw({"features": ["age"], "numeric": ["name"], "ignore": []}),
    "whether names are dates": raw({"dates": {"name": ["year"]}, "ignore": []}),
    "raw tables with names": raw({"ignore": []}),
    "raw tables, names as words": raw({"ignore": [], "categorical": ["name"]}),
    "raw tables, names as the label": raw({"label": "name", "ignore": []}),
    "raw tables, ages as the label": raw({"label": "age"}, problem={"kind": "multinomial"}),
}


@pytest.mark.parametrize("wanted", ATTACKS.values(), ids=ATTACKS)
def test_what_is_not_named_cannot_be_had(wanted, tmp_path):
    heard = []
    conductor, wires = hospitals(tmp_path, wanted)
    for line in wires.values():
        answer = line.service.call
        line.service.call = lambda *call, answer=answer: heard.append(answer(*call)) or heard[-1]
    said = " ".join(refused(conductor, "this site's"))
    assert not heard  # no site has said anything but no
    assert "Patient 1" not in said and str(tmp_path) not in said


def test_what_is_named_suffices(tmp_path):
    assert hospitals(tmp_path, chosen({}))[0].run().status == "done"
    assert hospitals(tmp_path / "raw", raw({}))[0].run().status == "done"


@pytest.mark.parametrize(
    "stated", [{"ward": list(map(str, range(10**5)))}, {"ward": [["red"]]}, {"ward": "red"}, "ward"]
)
def test_lists_of_words_beyond_reason_take_no_room_at_a_site(stated, tmp_path):
    conductor, wires = hospitals(tmp_path, chosen({}))
    _, told, body = hello(conductor, "lyon")
    told["tables"]["data"]["categories"] = stated
    with pytest.raises(RefusedError, match="at most 1000 each"):
        wires["lyon"].service.call("hello", json.dumps(told), body)


@pytest.mark.parametrize("ask", [chosen, raw], ids=["encoded", "raw"])
def test_a_column_that_is_called_as_a_part_of_a_date_does_not_pass_for_it(ask, tmp_path):
    """The policy allows `seen`, which this table does not have, and not `seen days`."""
    wanted = ask({"features": ["age"], "categories": {}, "dates": {"seen": ["days"]}})
    if ask is raw:
        wanted.tables["data"].pop("categories")

    def named_so(table):
        return table.with_columns(pl.Series("seen days", range(60)))

    conductor, _ = hospitals(tmp_path, wanted, named_so, features=["age", "ward", "seen"])
    refused(conductor, "this site's table has columns" if ask is chosen else "its table is not")


@pytest.mark.parametrize("wanted", [chosen({}), raw({})], ids=["encoded", "raw"])
def test_classes_that_the_owner_has_not_listed_are_not_told(wanted, tmp_path):
    def strange(table):
        return table.with_columns(ill=pl.Series(["perhaps", *table["ill"].to_list()[1:]]))

    conductor, _ = hospitals(tmp_path, wanted, strange)
    said = refused(conductor, "has values here that this site's policy does not list")
    assert "perhaps" not in " ".join(said)


def test_a_label_that_may_be_told_as_numbers_is_not_told_as_classes(tmp_path):
    wanted = chosen({"label": "age", "features": ["ward"]}, problem={"kind": "multinomial"})
    conductor, _ = hospitals(tmp_path, wanted, labels={"age": "numbers"})
    refused(conductor, "has the label 'age' as numbers to predict, and the job would take it as")


def test_counts_of_a_few_rows_are_not_told(tmp_path):
    told = []
    wanted = chosen({"categories": {"ward": ["blue", "green", "red"]}})
    conductor, wires = hospitals(tmp_path, wanted, lambda t: rare(t).with_columns(age=t["age"]))
    answer = wires["lyon"].service.call
    wires["lyon"].service.call = lambda *call: told.append(answer(*call)) or told[-1]
    result = conductor.run()
    assert json.loads(told[0][0])["counts"] == [55, 5]  # not 57 and 3; the sum is true
    assert result.status == "done"


def test_words_of_a_few_rows_are_not_told(tmp_path):
    wanted = settings(algorithm=FEDAVG, data={"label": "ill", "features": ["ward"]})
    conductor, _ = hospitals(tmp_path, wanted, rare)
    said = refused(conductor, "the column 'ward' has words here that fewer than 5 rows hold")
    assert "green" not in " ".join(said)


def test_raw_tables_tell_neither_words_nor_gaps_of_a_few_rows(tmp_path):
    heard = []
    conductor, wires = hospitals(tmp_path, raw({}), rare)
    answer = wires["lyon"].service.call
    wires["lyon"].service.call = lambda *call: heard.append(answer(*call)) or heard[-1]
    result = conductor.run()
    (site, *_) = result.about["preparation"]["sites"]
    assert site["missing values"] == {} and "green" not in json.dumps([a[0] for a in heard])
    ward = next(c for c in result.about["preparation"]["columns"] if c["name"] == "ward")
    assert ward["words"] == ["blue", "red"] and ward["missing"] == 0


def test_numbers_of_a_few_rows_are_in_no_sum(tmp_path):
    """A column that four rows have at one site: neither how many they are nor their sum is told."""
    four = pl.Series([50.0] * 4 + [None] * 56)
    heard = []
    conductor, wires = hospitals(tmp_path, raw({"test_fraction": None}))
    file = tmp_path / "lyon.csv"
    pl.read_csv(file).with_columns(age=four).write_csv(file)
    answer = wires["lyon"].service.call

    def call(verb, facts, body):
        text, data = answer(verb, facts, body)
        if verb == "meet" and "method" in json.loads(facts):
            heard.append(wire.read(data))
        return text, data

    wires["lyon"].service.call = call
    assert conductor.run().status == "done"
    counted, squares = heard
    assert counted["present"] == [0] and counted["total"] == [0] and squares["value"] == [0]


@pytest.mark.parametrize(
    "counts,told",
    [
        ([57, 3], [55, 5]),
        ([1, 2, 97], [5, 5, 90]),
        ([40, 20], [40, 20]),
        ([0, 60], [0, 60]),
        ([3, 3], [3, 3]),  # all that is said is that there are six
        ([1, 5], [3, 3]),
        ([4, 4, 5], [5, 4, 4]),
        ([4, 0, 3], [4, 0, 3]),
        ([1, 0, 6], [4, 0, 3]),
        ([], []),
    ],
)
def test_counts_as_they_are_told(counts, told):
    assert protection.told_counts(counts, 5) == told and sum(told) == sum(counts)


def test_columns_without_what_a_few_rows_have():
    x = np.array([[np.nan, np.nan], *[[1.0, np.nan]] * 3, [1.0, 3.0], [7.0, 2.0]])
    y = np.array([[0, 0], [0, -1], [0, -1], [0, -1], [1, -1], [-1, -1]])
    rows = protection.without_rare(Rows(x, y), 3)
    np.testing.assert_allclose(rows.x[:, 0], [11 / 5, 1, 1, 1, 1, 7])  # one gap, filled
    assert np.isnan(rows.x[:, 1]).all()  # two numbers, whose sum would tell of two rows
    np.testing.assert_array_equal(rows.y[:, 0], [0] * 6)  # the rare word and the gap are gone
    np.testing.assert_array_equal(rows.y[:, 1], [-1] * 6)  # nothing that could stand for it
    np.testing.assert_array_equal(protection.without_rare(Rows(x, y), 2).x[:, 1], x[:, 1])  # many
