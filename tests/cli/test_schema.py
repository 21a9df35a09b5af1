"""The JSON Schema accepts what fedloom accepts, and refuses what it refuses."""

import copy
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from fedloom.cli.main import main
from fedloom.experiments.schema import schema

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("src/fedloom/reproductions/*.toml"), *ROOT.glob("examples/*.toml")]
VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_it_is_a_schema_and_the_command_prints_it(capsys):
    jsonschema.Draft202012Validator.check_schema(schema())
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_settings_are_valid(file):
    VALIDATOR.validate(tomllib.loads(file.read_text()))


GOOD = {
    "data": {"name": "iris"},
    "partition": {"scheme": "iid", "clients": 3},
    "problem": {"kind": "logistic", "regulariser": {"kind": "l1", "strength": 0.1}},
    "algorithm": {"key": "fedavg", "lr": 0.1},
    "run": {"rounds": 3},
}


def test_wrappers_and_files_of_sites_are_valid():
    wrappers = [{"kind": "unreliable"}, {"kind": "private", "clip": 1, "noise": 2.5}]
    sites = {"sites": "sites", "label": "y", "test_fraction": 0.2, "ignore": ["id"]}
    VALIDATOR.validate({**GOOD, "wrapper": wrappers, "data": sites})


@pytest.mark.parametrize(
    "path,value",
    [
        (("run", "rounds"), 0),
        (("run", "round"), 3),
        (("algorithm", "lr"), -0.1),
        (("algorithm", "lr"), "fast"),
        (("algorithm", "key"), "fedavgg"),
        (("algorithms",), {}),
        (("partition", "clients"), 0),
        (("compare",), {"seeds": 0}),
        (("sweep",), {"search": "best"}),
        (("wrapper",), {"kind": "private", "clip": 1.0}),
        (("wrapper",), [{"kind": "unreliable", "drop": 2}]),
        (("data",), {"sites": "sites/*.csv"}),
        (("data",), {"sites": "sites/*.csv", "label": "y", "ignore": "x"}),
    ],
)
def test_mutated_settings_are_refused(path, value):
    VALIDATOR.validate(GOOD)
    bad = copy.deepcopy(GOOD)
    table = bad
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    assert list(VALIDATOR.iter_errors(bad))
