"""Hints for names that do not exist: near ones where there are any, else what there is."""

import pytest

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.main import main
from fedloom.errors import FedloomError
from fedloom.experiments import registries
from fedloom.experiments.locations import Location
from fedloom.hints import closest

METHODS = list(CATALOGUE)
PARAMETERS = ["lr", "local_steps", "cohort", "server_lr"]


@pytest.mark.parametrize(
    "name,known,meant",
    [
        ("scafold", METHODS, ["scaffold"]),
        ("FedAvg", METHODS, ["fedavg"]),
        ("adam", METHODS, ["fedadam"]),
        ("steps", PARAMETERS, ["local_steps"]),
        ("localsteps", PARAMETERS, ["local_steps"]),
        ("cifar", registries.DATASETS, ["cifar10"]),
        ("acc", ["accuracy", "loss"], ["accuracy"]),
        ("f2", ["f1", "loss"], ["f1"]),
    ],
)
def test_near_names_are_proposed_and_no_farther_ones(name, known, meant):
    assert closest(name, known) == f"Did you mean {' or '.join(map(repr, meant))}?"


@pytest.mark.parametrize(
    "name,known",
    [
        *(("imagenet", registries.DATASETS), ("None", registries.DATASETS), ("None", METHODS)),
        *(("learning_rate", PARAMETERS), ("train", ["explain", "run"]), ("y", ["x", "label"])),
        *((5, PARAMETERS), (["x"], METHODS), ("", METHODS)),
    ],
)
def test_where_nothing_is_near_nothing_is_proposed(name, known):
    assert "Did you mean" not in closest(name, known)


def test_what_there_is_is_listed_where_that_can_be_read():
    assert closest("model", ["data", "run"]) == "Use one of 'data', 'run'."
    assert closest("x", []) == "There are none."
    said = closest("xyzzy", METHODS, where="fedloom list algorithms")
    assert said == f"`fedloom list algorithms` shows all {len(METHODS)}."
    said = closest("xyzzy", [f"column {i}" for i in range(1000)])
    assert "'column 19', or of 980 more." in said and "'column 20'" not in said


@pytest.mark.parametrize("registry", registries.ALL, ids=lambda registry: registry.kind)
def test_a_key_that_is_missing_is_told_to_be(registry):
    with pytest.raises(FedloomError) as caught:
        registry.find(None, Location("it.toml", "", ("part", "kind")))
    said = str(caught.value)
    assert said.startswith("it.toml, part.kind: is missing") and "Did you mean" not in said


def test_a_verb_that_is_none(capsys):
    assert main(["train"]) == 2
    assert "`fedloom --help` shows all" in capsys.readouterr().err
