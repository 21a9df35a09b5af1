"""Everything that a settings file may hold can be found, with a line that is valid there."""

import argparse
import dataclasses
import json
import shutil
import tomllib
from pathlib import Path

import jsonschema
import pytest

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli import listing, tables
from fedloom.cli.main import main, parser
from fedloom.experiments import registries, samples, settings, toml
from fedloom.experiments.locations import Location
from fedloom.experiments.schema import schema
from fedloom.federation.policy import Policy
from fedloom.preparation import PartyFiles
from fedloom.rounds.given import check_fit

VALIDATOR = jsonschema.Draft202012Validator(schema())
GRAPHS = Path(__file__).parents[1] / "graphs"
KINDS = {registry.kind: registry for registry in registries.ALL}


def dotted(whole, sample):
    """A settings file of single lines, without what a sample's own line says."""
    said = tomllib.loads(sample.line)
    for table, held in whole.items():
        for key, value in ({} if isinstance(held, list) else held).items():
            by_line = said.get(table, {})
            if not (f"{table} = " in sample.line and by_line) and key not in by_line:
                yield f"{table}.{key} = {toml.value(value)}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_of_every_key_makes_a_valid_settings_file(kind, capsys, tmp_path, monkeypatch):
    shutil.copy(GRAPHS / "mlp.safetensors", tmp_path / "net.safetensors")  # which one of them names
    monkeypatch.chdir(tmp_path)
    assert main(["list", kind, "--format", "json"]) == 0
    listed = {row["key"]: row["in a settings file"] for row in json.loads(capsys.readouterr().out)}
    assert set(listed) >= set(KINDS[kind])
    for key in KINDS[kind]:
        sample = samples.sample(KINDS[kind], key)
        assert listed[key] == sample.line and "\n" not in sample.line
        text = "\n".join([*dotted(sample.whole, sample), sample.line])
        read = tomllib.loads(text)
        read["wrapper"] = read["wrapper"] if "wrapper" in read else []
        assert {**read, "wrapper": 0} == {**sample.whole, "wrapper": 0}, key
        chosen = settings.parse(read, Location(key, text))
        check_fit(chosen.algorithm, chosen.problem)
        VALIDATOR.validate(read)
        VALIDATOR.validate(tomllib.loads(toml.document(sample.whole)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "algorithms"])
def test_explain_shows_the_table_of_every_key(kind, capsys):
    for key in KINDS[kind]:
        assert main(["explain", key]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert " ".join(samples.sample(KINDS[kind], key).placed.split()) in said, key


def test_explain_of_a_method_ends_with_a_file_that_can_be_run_and_its_source(capsys):
    assert main(["explain", "scaffold"]) == 0
    said = capsys.readouterr().out
    assert 'key = "scaffold"\n    lr = 0.5' in said and "cohort = 3" not in said
    assert "Source: fedloom/algorithms/averaging/scaffold.py, line " in said


def test_the_file_of_a_method_begins_with_its_needs_and_not_with_the_laws_trial():
    for key, entry in CATALOGUE.items():
        table = samples.method_file(key, entry.cls)["algorithm"]
        assert table.get("cohort") is None or key == "egvfl_partial"
        assert table.get("local_steps") != 3


@pytest.mark.parametrize("key", tables.TABLES)
def test_every_table_is_explained_with_its_keys_and_a_valid_example(key, capsys):
    table = tables.TABLES[key]
    assert main(["explain", key]) == 0
    said = capsys.readouterr().out
    assert table.about in said
    for name in [field.name for field in dataclasses.fields(table.cls)] if table.cls else []:
        assert name in said
    example = tomllib.loads(table.toml)
    if key == "policy":
        assert Policy(**example)
        return
    whole = {**samples.method_file("fedavg", CATALOGUE["fedavg"].cls), **example}
    if key == "problem":  # with a regulariser, for which FedAvg is not
        whole["algorithm"] = {"key": "fedmid", "lr": 0.1}
    VALIDATOR.validate(whole)
    settings.parse(whole, Location(key, ""))


def test_fedloom_alone_says_what_it_can_do(capsys):
    assert main([]) == 2
    said = capsys.readouterr()
    assert "compare the methods of a settings file" in said.err and not said.out


def test_every_option_says_what_it_is_for():
    verbs = next(a for a in parser([], every=True)._actions if a.dest == "verb").choices
    nested = [
        kind
        for verb in verbs.values()
        for action in verb._actions
        if isinstance(action, argparse._SubParsersAction)
        for kind in action.choices.values()
    ]
    for options in [*verbs.values(), *nested]:
        for action in options._actions:
            named = isinstance(action, argparse._SubParsersAction) or action.help
            assert named, f"{options.prog}: {action.option_strings or action.dest}"


def test_defaults_are_as_a_settings_file_has_them():
    rows = {row["name"]: row["default"] for row in tables.parameter_rows(PartyFiles)}
    assert rows["standardise"] == "true" and rows["features"] == "[]"
    assert rows["test_fraction"] == "none" and rows["id"] == "required"


def test_list_alone_says_which_lists_there_are(capsys):
    assert main(["list", "--format", "json"]) == 0
    rows = {row.pop("list"): row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(listing.LISTS) >= {*KINDS, "constraints", "tables"}
    assert all(row["entries"] and row["what they are"] for row in rows.values())
    assert main(["list", "constraints", "--format", "json"]) == 0
    assert {row["key"] for row in json.loads(capsys.readouterr().out)} == {"box", "ball", "simplex"}
    assert main(["list", "problem"]) == 2
    assert "Did you mean 'problems'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path,value",
    [
        (("problem", "regulariser"), {"kind": "l11", "strength": 0.1}),
        (("problem", "regulariser"), {"kind": "l1", "weight": 0.1}),
        (("problem", "model"), {"kind": "mlp", "widths": [3]}),
        (("algorithm", "solver"), {"kind": "sgda"}),
        (("wrapper",), {"kind": "robust", "aggregator": {"kind": "krum", "malicious": -1}}),
        (("data",), {"name": "digitss"}),
        (("data",), {"name": "shakespeare", "lenght": 3}),
        (("run", "metrics"), "accuracy"),
    ],
)
def test_the_schema_refuses_what_is_wrong_inside_parts(path, value):
    kind = {"solver": "ffmdr", "model": None}.get(path[-1], "fedmid")
    whole = samples.method_file(kind or "fedavg", CATALOGUE[kind or "fedavg"].cls)
    if path[-1] == "model":
        whole["problem"] = {"kind": "supervised"}
        VALIDATOR.validate({**whole, "problem": {"kind": "supervised", "model": {"kind": "mlp"}}})
    else:
        VALIDATOR.validate(whole)
    table = whole
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] = value
    assert list(VALIDATOR.iter_errors(whole))


OWN = '''"""What the file is about."""
from fedloom.protocol import Algorithm, algorithm, ask
from fedloom.cohorts import everyone


@algorithm
class Mine(Algorithm):
    """A step of everybody."""

    def init_hub(self, fed, key, /):
        return fed.init_model(key)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub, to=everyone(fed.n))
        return hub - replies.average(fed.weights), ()

    def train(self, client, model, f, key, /):
        return client, f.grad(model, key)

    def model(self, hub, fed, /):
        return hub


class Other:
    pass


class _Private:
    pass
'''


def test_of_ones_own_class_its_own_words_come_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    assert main(["explain", "mine.py:Mine"]) == 0
    said = capsys.readouterr().out
    assert said.index("A step of everybody.") < said.index("What the file is about.")
    assert 'key = "mine.py:Mine"' in said and "mine.py, line " in said


@pytest.mark.parametrize("verb", ["explain", "check"])
def test_a_file_without_a_class_is_answered_with_its_classes(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    assert main([verb, "mine.py"]) == 2
    said = capsys.readouterr().err
    assert "after a colon, as in mine.py:" in said and "It has the classes Mine, Other." in said
    assert main([verb, "yours.py"]) == 2
    assert "there is no file yours.py" in capsys.readouterr().err
