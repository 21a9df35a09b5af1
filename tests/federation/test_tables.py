"""Sites with raw tables: words, gaps and scales are agreed on over the federation's server."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import fedloom as fl
from federation import harness
from federation.harness import NAMES, same_to_rounding
from fedloom.engines.flare.conductor import Conductor
from fedloom.engines.flare.job import job_of
from fedloom.engines.flare.policy import policy_text, set_data
from fedloom.errors import FedloomError

PROBLEM = {"kind": "logistic", "l2": 0.1, "intercept": True}


def write_tables(folder):
    """A table for each site, with a scale, words and gaps of its own."""
    rng = np.random.default_rng(8)
    folder.mkdir(parents=True)
    for i, name in enumerate(NAMES):
        n = 20 + 5 * i
        age = rng.normal(50 + 10 * i, 8, n)
        ages = [None if k == 3 else float(a) for k, a in enumerate(age)]
        ward = rng.choice(["red", "blue", "green"][: 2 + (i == 2)], n)
        ill = np.where(age + 9 * (ward == "red") + rng.normal(0, 3, n) > 58 + 10 * i, "yes", "no")
        table = pl.DataFrame({"age": ages, "ward": ward, "dose": rng.normal(0, 1e-3, n)})
        table.with_columns(ill=pl.Series(ill)).write_csv(folder / f"{name}.csv")
    return folder


def settings(folder, **changes):
    data = {"sites": str(folder / "tables"), "label": "ill", "test_fraction": 0.25}
    return harness.settings(data={**data, **changes.pop("data", {})}, problem=PROBLEM, **changes)


def federation(folder, chosen, *, wires=None, resume=False, **policy):
    if wires is None:
        tables, wires = write_tables(folder / "tables"), {}
        for name in NAMES:
            kit = folder / name
            kit.mkdir()
            allowed = {"methods": ["scaffold"], "problems": ["logistic"], **policy}
            (kit / "policy.toml").write_text(policy_text(allowed))
            set_data(kit, tables / f"{name}.csv")
            wires[name] = harness.Wire(kit)
    job = job_of(chosen, "a-run", resume)
    assert job.tables["data"]["sites"] == "*"  # where the simulator finds files is not sent
    return Conductor(job, wires, folder / "server"), wires


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
        ("columns", {"columns": ["age", "ill"]}, "the job wants 'ward'"),
        ("clip", {"clip": 1.0}, "clips replies, and a preparation needs its sums"),
    ):
        conductor, _ = federation(tmp_path / name, settings(tmp_path / name), **policy)
        with pytest.raises(FedloomError):
            conductor.run()
        assert any(complaint in note for note in conductor.notes)


def test_tables_that_do_not_fit_are_named(tmp_path):
    conductor, _ = federation(tmp_path, settings(tmp_path))
    file = tmp_path / "tables" / "lyon.csv"
    pl.read_csv(file).rename({"dose": "weight"}).write_csv(file)
    with pytest.raises(FedloomError, match="lyon: all sites must have the same columns; 'dose'"):
        conductor.run()
