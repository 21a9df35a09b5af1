"""Sites with raw tables: words, gaps and scales are agreed on over the federation's server."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import fedloom as fl
from federation import harness
from federation.harness import NAMES, same_to_rounding
from federation.raw_tables import federation, settings
from fedloom.errors import DataError, FedloomError, RefusedError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    chosen = settings(folder)
    conductor, _ = federation(folder, chosen)
    return folder, chosen, conductor.run()


def test_preparation_and_trajectory_are_the_simulators(made):
    _, chosen, result = made
    simulated = fl.simulate(
        chosen.algorithm, chosen.problem, chosen.clients(), **chosen.run.options()
    )
    same_to_rounding(result.model, simulated.model)
    ours, theirs = result.about["preparation"], simulated.about["preparation"]
    assert [column["words"] for column in ours["columns"]] == [None, ["blue", "green", "red"], None]
    for one, other in zip(ours["columns"], theirs["columns"], strict=True):
        assert one | {"mean": 0, "deviation": 0} == other | {"mean": 0, "deviation": 0}
        assert one["mean"] == pytest.approx(other["mean"], rel=1e-12)
        assert one["deviation"] == pytest.approx(other["deviation"], rel=1e-12)
    assert [site["missing values"] for site in ours["sites"]] == [
        site["missing values"] for site in theirs["sites"]
    ]
    for name in ("accuracy", "loss", "loss_worst"):
        assert result.final[name] == pytest.approx(simulated.final[name], rel=1e-5)


def test_keys_and_names_are_left_out_as_in_a_simulation(tmp_path):
    chosen = settings(tmp_path, data={"ignore": ["dose"]})
    features = ["age", "ward", "patient", "surname"]
    conductor, _ = federation(tmp_path, chosen, features=features)
    for i, name in enumerate(NAMES):
        file = tmp_path / "tables" / f"{name}.csv"
        table = pl.concat([pl.read_csv(file)] * 2)
        numbers = np.arange(table.height) + 1000 * i
        numbers[: 10 * (i == 0)] = 7  # one patient comes back again and again, at the smallest site
        surnames = [f"{name} {k // 3}" for k in range(table.height)]
        table.with_columns(patient=numbers, surname=pl.Series(surnames)).write_csv(file)
    told = conductor.run().about["preparation"]
    assert list(told["left_out"]) == ["patient", "surname"]
    assert told["left_out"] == chosen.clients().preparation.left_out
    assert "berlin 1" not in json.dumps(told)


def test_a_misspelt_column_to_ignore_ends_the_run(tmp_path):
    chosen = settings(tmp_path, data={"ignore": ["dosis"]})
    with pytest.raises(FedloomError, match="'dosis' is a column of no site"):
        federation(tmp_path, chosen)[0].run()


def test_the_result_predicts_new_rows_of_raw_tables(made, tmp_path):
    _, chosen, result = made
    result.save(tmp_path / "kept")
    new = pl.DataFrame({"age": [90.0, None], "ward": ["red", "blue"], "dose": [0.0, 0.0]})
    told = fl.predict(fl.load(tmp_path / "kept"), new, problem=chosen.problem)
    assert told["prediction"].to_list() == ["yes", "no"]


def test_a_server_that_dies_remembers_the_preparation(tmp_path):
    chosen = settings(tmp_path)
    conductor, wires = federation(tmp_path, chosen)
    asked = []

    def die(verb, facts):
        asked.append(verb)
        if verb == "letter" and json.loads(facts)["round"] == 4:
            raise KeyboardInterrupt

    wires["torino"].before = die
    with pytest.raises(KeyboardInterrupt):
        conductor.run()
    assert asked.count("meet") == 3  # the schema, the sums, the squares
    wires["torino"].before = lambda verb, facts: asked.append(f"again {verb}")
    for line in wires.values():
        line.restart()
    resumed, _ = federation(tmp_path, chosen, wires=wires, resume=True)
    result = resumed.run()
    assert "again meet" not in asked  # it is not counted a second time
    undisturbed = federation(tmp_path / "other", settings(tmp_path / "other"))[0].run()
    jax.tree.map(np.testing.assert_array_equal, result.model, undisturbed.model)


def test_what_a_policy_forbids_is_refused(tmp_path):
    for name, policy, complaint in (
        (
            "columns",
            {"features": ["age"]},
            "this site's table has columns that its policy does not allow",
        ),
        ("clip", {"clip": 1.0}, "preparing raw tables needs exact sums"),
    ):
        conductor, _ = federation(tmp_path / name, settings(tmp_path / name), **policy)
        harness.refused(conductor, complaint)


def spoken_to(folder, chosen, **policy):
    """The service of one site that has heard of the run."""
    conductor, wires = federation(folder, chosen, **policy)
    service = wires["lyon"].service
    _, hello, body = harness.hello(conductor, "lyon")
    service.call("hello", json.dumps(hello), body)
    return service


def test_a_hub_cannot_ask_for_columns_that_a_site_did_not_propose(tmp_path):
    chosen = settings(tmp_path, data={"ignore": ["dose"]})
    service = spoken_to(tmp_path, chosen, features=["age", "ward"])
    columns = {"age": None, "ward": ["blue", "red"], "dose": None}
    schema = {"label": "ill", "classes": ["no", "yes"], "columns": columns}
    asked = {"id": 1, "rows": [15, 19, 22], "schema": schema}
    with pytest.raises(RefusedError, match="not what this site has proposed"):
        service.call("meet", json.dumps(asked), b"")
    facts = {"label": "ill", "classes": ["no", "yes"], "sites": [], "format": 1}
    facts["columns"] = [{"name": name, "missing": 0, "words": w} for name, w in columns.items()]
    begin = {"id": 1, "names": NAMES, "counts": [[1, 1]] * 3, "shape": [3], "labels": ["no", "yes"]}
    with pytest.raises(RefusedError, match="not what this site has proposed"):
        service.call("begin", json.dumps(begin), json.dumps(facts).encode())


COLUMNS = [
    {"name": "age", "missing": 0, "mean": 50.0, "deviation": 10.0},
    {"name": "ward", "missing": 0, "words": ["blue", "red"]},
]
FORGED = {
    "a column beside the label": {"exposure": "dose"},
    "events beside the label": {"event": "dose"},
    "parts of dates": {"dates": {"dose": ["days"]}},
    "another encoding": {"encoding": "latin-1"},
    "classes as numbers": {"classes": None},
    "a class less": {"classes": ["no"]},
    "a hundred thousand words": {
        "columns": [COLUMNS[0], COLUMNS[1] | {"words": ["blue", "red", *map(str, range(10**5))]}]
    },
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_hub_cannot_have_a_table_read_otherwise_than_was_agreed(forged, tmp_path):
    chosen = settings(tmp_path, data={"ignore": ["dose"]})
    service = spoken_to(tmp_path, chosen, features=["age", "ward"])
    facts = {"label": "ill", "classes": ["no", "yes"], "columns": COLUMNS, "sites": []}
    body = json.dumps({"format": 1, **facts, **forged}).encode()
    begin = {"id": 1, "names": NAMES, "counts": [[1, 1]] * 3, "shape": [3], "labels": ["no", "yes"]}
    with pytest.raises(RefusedError, match=r"this site has proposed|than the settings say"):
        service.call("begin", json.dumps(begin), body)


def test_numbers_to_predict_cannot_be_counted_as_classes(tmp_path):
    chosen = settings(tmp_path, data={"label": "age", "regression": True, "ignore": ["ill"]})
    service = spoken_to(tmp_path, chosen, features=["ward", "dose"], labels={"age": "numbers"})
    columns = {"ward": ["blue", "red"], "dose": None}
    schema = {"label": "age", "classes": list(range(100)), "columns": columns}
    with pytest.raises(RefusedError, match="not what this site has proposed"):
        service.call("meet", json.dumps({"id": 1, "rows": [15, 18, 22], "schema": schema}), b"")


def test_a_quorum_of_the_policy_holds_before_words_and_sums_leave(tmp_path):
    with pytest.raises(RefusedError, match="at least 5 sites"):
        spoken_to(tmp_path, settings(tmp_path), min_sites=5)


def test_values_stay_at_the_site_when_its_table_is_wrong(tmp_path, caplog):
    with pytest.raises(DataError) as raised:
        spoken_to(tmp_path, settings(tmp_path, data={"numeric": ["ward"]}))
    assert "blue" not in str(raised.value) and "its own log" in str(raised.value)
    assert "must hold numbers; got" in caplog.text


def test_sums_without_one_of_the_sites_are_never_used(tmp_path):
    conductor, wires = federation(tmp_path, settings(tmp_path, federation={"min_sites": 2}))
    service = wires["lyon"].service
    original = service.call

    def damaged(verb, facts, body):
        answer, data = original(verb, facts, body)
        return answer, data[:-3] if verb == "meet" and "method" in json.loads(facts) else data

    service.call = damaged
    result = conductor.run()  # the others are summed anew
    assert result.client_names == ("berlin", "torino")
    assert any("lyon does not take part" in note for note in result.about["notes"])


def test_a_site_without_test_rows_has_no_metrics_where_others_have_some(tmp_path):
    chosen = settings(tmp_path)
    conductor, _ = federation(tmp_path, chosen)
    file = tmp_path / "tables" / "lyon.csv"
    pl.read_csv(file)[:1].write_csv(file)
    result = conductor.run()
    options = chosen.run.options()
    simulated = fl.simulate(chosen.algorithm, chosen.problem, chosen.clients(), **options)
    ours, theirs = (run.client_metrics["accuracy"] for run in (result, simulated))
    np.testing.assert_allclose(ours, theirs)
    assert np.isnan(ours[1])


def test_keys_stay_at_home_and_dates_leave_as_the_parts_that_are_asked_for(tmp_path):
    chosen = settings(tmp_path, data={"dates": {"seen": ["weekday", "days"]}})
    features = ["age", "ward", "dose", "seen", "patient"]
    conductor, _ = federation(tmp_path, chosen, features=features)
    for name in NAMES:
        file = tmp_path / "tables" / f"{name}.csv"
        table = pl.read_csv(file).with_row_index("patient")
        seen = pl.date(2026, 3, 1) + pl.duration(days=pl.col("patient") % 5)
        table.with_columns(seen=seen).write_csv(file)
    result = conductor.run()
    prepared = result.about["preparation"]
    assert list(prepared["left_out"]) == ["patient"]
    names = [column["name"] for column in prepared["columns"]]
    assert names == ["age", "ward", "dose", "seen weekday", "seen days"]
    simulated = fl.simulate(
        chosen.algorithm, chosen.problem, chosen.clients(), **chosen.run.options()
    )
    assert simulated.about["preparation"]["left_out"] == prepared["left_out"]
    same_to_rounding(result.model, simulated.model)
    new = pl.DataFrame({"age": [90.0], "ward": ["red"], "dose": [0.0], "seen": ["2026-03-02"]})
    assert fl.predict(result, new, problem=chosen.problem).height == 1
