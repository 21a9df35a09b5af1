"""Whatever stands in a settings file, the answer is a sentence: every field, any kind of value."""

import copy
import tomllib

import polars as pl
import pytest

from fedloom.cli.main import main
from fedloom.data.libsvm import read_libsvm
from fedloom.data.tables import read_table
from fedloom.errors import FedloomError
from fedloom.experiments import building, registries, samples, searching, settings, toml
from fedloom.experiments.locations import Location
from fedloom.experiments.options import (
    CompareSettings,
    FederationSettings,
    RunSettings,
    SweepSettings,
)
from fedloom.experiments.readers import options_of
from fedloom.federation.policy import Policy
from fedloom.federation.policy_file import read_policy
from fedloom.federation.provisioning import read_project
from fedloom.parameters import written
from fedloom.preparation import PartyFiles, SiteFiles

HUGE = "1" + "0" * 30
TEXTS = ("0", "-1", "5", "2.5", "1e300", HUGE, "3000000000", "true", '"0.9"', '""', '"x"', "[]")
LISTS = (
    "[1]",
    '["x"]',
    '[["x"]]',
    "{}",
    "{ a = 1 }",
    '{ kind = "x" }',
    "nan",
    "-inf",
    "1979-05-27",
)
VALUES = [*TEXTS, *LISTS]
TABLES = {
    "run": RunSettings,
    "compare": CompareSettings,
    "sweep": SweepSettings,
    "federation": FederationSettings,
}
BASE = {
    "data": {"name": "iris"},
    "partition": {"scheme": "iid", "clients": 3, "test_fraction": 0.2},
    "problem": {"kind": "multinomial"},
    "algorithm": {"key": "fedavg", "lr": 0.1},
    "run": {"rounds": 1},
}


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.toml").write_text(toml.document(BASE))
    return tmp_path / "base.toml"


def used(file, *changes):
    """What a verb looks at before anything runs."""
    chosen = settings.read(file, list(changes))
    chosen.resolved()
    chosen.clients()
    if "over" in chosen.tables.get("sweep", {}):
        searching.check_keys(chosen.over, chosen.algorithms, chosen.problem)
        searching.random(chosen.over, 2, 0)


def answered(act, *values):
    """That it works, or is refused in a sentence; the sentence."""
    try:
        act(*values)
    except FedloomError as error:
        said = str(error)
        assert "\n" not in said and said.endswith((".", "?", "...")), said
        return said
    return None


@pytest.mark.parametrize("table", TABLES)
def test_tables_of_a_run(table, base):
    for field in written(TABLES[table]):
        for value in VALUES:
            answered(used, base, f"{table}.{field.name}={value}")


@pytest.mark.parametrize("table", [*BASE, "wrapper", "compare", "sweep", "federation"])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_in_the_place_of_a_table(table, value, base):
    rest = {name: held for name, held in BASE.items() if name != table}
    base.write_text(f"{table} = {value}\n{toml.document(rest)}")
    answered(used, base)


@pytest.mark.parametrize(
    "key",
    [
        *("data.name", "data.path", "data.sites", "data.parties", "data.label", "data.verify"),
        *("partition.scheme", "partition.seed", "partition.test_fraction", "partition.normalise"),
        *("partition.clients", "problem.kind", "algorithm.key", "algorithm.name", "wrapper.kind"),
        *("sweep.over", "sweep.over.lr", "sweep.over.problem.l2"),
    ],
)
def test_keys_beside_the_parameters(key, base):
    for value in VALUES:
        answered(used, base, f"{key}={value}")


@pytest.mark.parametrize("end", ["from", "to", "count"])
def test_ranges_of_a_sweep(end, base):
    for value in VALUES:
        range_ = {"from": "0.1", "to": "1.0", "count": "3"} | {end: value}
        if (end, value) != ("count", HUGE):
            text = ", ".join(f"{name} = {said}" for name, said in range_.items())
            answered(used, base, f"sweep.over.lr={{ {text} }}")
    for said in ("from = 1.0, to = 0.1", "from = 0.1, to = 1.0, count = 0"):
        assert "over: lr" in answered(used, base, f"sweep.over.lr={{ {said} }}")


@pytest.mark.parametrize("registry", registries.ALL, ids=lambda registry: registry.kind)
def test_parameters_of_everything_that_can_be_named(registry):
    for known in registry.known():
        whole = samples.sample(registry, known.key, known.thing).whole
        fields = written(known.thing) if hasattr(known.thing, "__leaves__") else ()
        for field in fields:
            if field.name in ("inner", "secret"):
                continue
            for value in VALUES:
                changed = copy.deepcopy(whole)
                named(changed, known.key)[field.name] = tomllib.loads(f"v = {value}")["v"]
                answered(parsed, changed)


def named(tables, key):
    """The table that names a key."""
    inside = tables.values() if isinstance(tables, dict) else tables
    if isinstance(tables, dict) and key in map(tables.get, ("key", "kind", "scheme")):
        return tables
    found = (named(entry, key) for entry in inside if isinstance(entry, dict | list))
    return next(filter(None, found), {})


def parsed(tables):
    place = Location("it.toml", "")
    settings.parse(tables, place).resolved()
    if "partition" in tables:
        shared = ("seed", "test_fraction", "normalise")
        scheme = {name: v for name, v in tables["partition"].items() if name not in shared}
        building.scheme(scheme, place / "partition")


ROWS = pl.DataFrame(
    {"id": range(40), "a": [i / 2 for i in range(40)], "b": [i % 3 for i in range(40)]}
)
LABEL = pl.Series("y", [i % 2 for i in range(40)])


@pytest.mark.parametrize(
    "data,options",
    [
        ({"name": "digits"}, ["verify"]),
        ({"name": "heart"}, ["missing"]),
        ({"name": "synthetic", "alpha": 1.0, "beta": 1.0},
         ["alpha", "beta", "samples", "features", "labels", "normalise", "seed"]),
        ({"path": "t.csv", "label": "y"}, [o.name for o in options_of(read_table)[1:]]),
        ({"path": "t.libsvm"}, [o.name for o in options_of(read_libsvm)[1:]]),
        ({"sites": "sites", "label": "y"}, [f.name for f in written(SiteFiles)]),
        ({"parties": "parties", "id": "id", "label": "y"}, [f.name for f in written(PartyFiles)]),
    ],
)  # fmt: skip
def test_options_of_data(data, options, base, tmp_path):
    ROWS.with_columns(LABEL).write_csv("t.csv")
    (tmp_path / "t.libsvm").write_text("".join(f"{i % 2} 1:{i} 2:3\n" for i in range(40)))
    for folder, frames in {
        "sites": [ROWS.with_columns(LABEL)] * 2,
        "parties": [ROWS.select("id", "a", LABEL), ROWS.select("id", "b")],
    }.items():
        (tmp_path / folder).mkdir()
        for number, frame in enumerate(frames):
            frame.write_csv(tmp_path / folder / f"{number}.csv")
    named_ones = ("name" in data and data["name"] != "synthetic") or "path" in data
    tables = BASE | {"data": data} | ({} if named_ones else {"partition": None})
    base.write_text(toml.document({name: held for name, held in tables.items() if held}))
    assert answered(used, base) is None
    large = ("samples", "features")  # these would be made
    for option in options:
        for value in VALUES:
            if not (option in large and value == "3000000000"):
                answered(used, base, f"data.{option}={value}")


@pytest.mark.parametrize(
    "words,said",
    [
        (["run.metrics=5"], "metrics must be a list of names, or none (the problem's); got 5"),
        (
            ['compare.target="0.9"'],
            "target must be a finite number, or none",
        ),
        (["compare.paired=[1]"], "paired must be a text"),
        (["algorithm.local_steps=3000000000"], "got 3000000000. It must be < 2^31."),
        ([f"partition.clients={HUGE}"], "a number of 64 bits"),
        (["partition.clients=200"], "there are 200 clients and 150 rows"),
        (["sweep.over=5"], "must be a table with the values of each field; got 5"),
        (["algorithm.name=[1]"], "must be a text; got [1]"),
    ],
)
def test_what_is_said(words, said, capsys):
    sets = [word for each in words for word in ("--set", each)]
    assert main(["compare", "base.toml", *sets, "--out", "o"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("key", ["name", "sites", "organisation", "server", "people", "policy"])
def test_projects(key, tmp_path):
    usual = {"name": "it", "sites": ["a", "b"], "people": {"me@x.org": "lead"}}
    for value in VALUES:
        lines = [f"{name} = {toml.value(held)}" for name, held in usual.items() if name != key]
        (tmp_path / "p.toml").write_text("\n".join([*lines, f"{key} = {value}"]))
        answered(read_project, tmp_path / "p.toml")


def test_policies(tmp_path):
    for field in written(Policy):
        for value in VALUES:
            (tmp_path / "policy.toml").write_text(f"{field.name} = {value}\n")
            answered(read_policy, tmp_path)
