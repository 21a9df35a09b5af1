"""Schedules, optimisers, starts, scales and augmentation in settings files."""

import jsonschema
import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.errors import SettingsError
from fedloom.experiments import settings
from fedloom.experiments.locations import Location
from fedloom.experiments.schema import schema
from fedloom.schedules import Cosine, Exponential, Warmup

SETTINGS = """
[data]
name = "iris"
[partition]
scheme = "iid"
clients = 3
test_fraction = 0.2
normalise = true
[problem]
kind = "supervised"
model = { kind = "mlp", hidden = [4], initialisation = "torch" }
[algorithm]
key = "scaffold"
lr = { kind = "warmup", rounds = 2, after = { kind = "cosine", start = 0.1, rounds = 9, end = 1 } }
server_lr = { kind = "exponential", start = 1, decay = 0.9 }
optimiser = { kind = "adamw", clip = 1 }
local_steps = 2
[run]
rounds = 3
batch_size = 8
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "training.toml"
    path.write_text(SETTINGS)
    return path


def test_a_file_says_how_clients_train_and_a_run_folder_says_it_again(file, tmp_path):
    chosen = settings.read(file, ["algorithm.server_lr.decay=0.8"])
    assert chosen.algorithm == fl.algorithms.Scaffold(
        lr=Warmup(2, Cosine(0.1, 9, end=1)),
        server_lr=Exponential(1.0, 0.8),
        optimiser=fl.optimisers.AdamW(clip=1.0),
        local_steps=2,
    )
    assert chosen.problem.model == fl.models.MLP((4,), "torch")
    np.testing.assert_allclose(chosen.clients().train.x.std(0), 1, rtol=1e-5)
    jsonschema.Draft202012Validator(schema()).validate(chosen.tables)
    again = settings.parse(chosen.resolved(), Location("again", ""))
    assert (again.algorithm, again.problem) == (chosen.algorithm, chosen.problem)
    out = tmp_path / "out"
    assert main(["run", str(file), "--out", str(out)]) == 0
    kept = settings.read_again(out)
    assert kept.algorithm == settings.read(file).algorithm
    assert kept.algorithm.lr.after.rounds == 9


def test_augmentation_is_a_table_of_the_problem(file):
    text = "problem.augment={ flip = false, crop = 2 }"
    problem = settings.read(file, [text]).problem
    assert problem.augment == fl.problems.Augmentation(flip=False, crop=2)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ('algorithm.lr.kind="cosin"', "lr.kind.*: must be a known key; got 'cosin'. Did you mean"),
        ('algorithm.lr={kind="cosine", start=0.1}', "Cosine needs rounds: number of rounds until"),
        ("algorithm.lr.after.end=-1", "Cosine: end must be a number >= 0; got -1"),
        ("algorithm.lr=[0.1]", r"lr must be a number > 0, or a schedule; got \(0.1,\)"),
        ("algorithm.lr.decay=0.9", "lr.decay=0.9: is not a parameter of Warmup"),
        ('algorithm.optimiser="adam"', "optimiser must be an optimiser; got 'adam'"),
        ('algorithm.optimiser.kind="adagrad"', "must be a known key; got 'adagrad'"),
        ("algorithm.optimiser.momentum=0.9", "is not a parameter of AdamW"),
        ("problem.model.initialisation='xavier'", "must be one of 'he', 'glorot', 'torch'; got"),
        ("problem.augment=true", "augment must be an augmentation, such as { flip = true"),
    ],
)
def test_mistakes_are_told_where_they_stand(file, override, told):
    with pytest.raises(SettingsError, match=told):
        settings.read(file, [override])
