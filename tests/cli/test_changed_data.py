"""Site files that have changed since a run: nothing is said of other data as if it were of them."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.checksums import read_json, write_json
from fedloom.cli.main import main
from fedloom.errors import SettingsError
from fedloom.reports.reading import read

SETTINGS = """
[data]
sites = "sites/*.csv"
label = "sick"
[problem]
kind = "logistic"
intercept = true
l2 = 0.01
[algorithm]
key = "pfedme"
penalty = 1.0
outer_lr = 0.3
lr = 0.3
[run]
rounds = 4
"""


def table(seed):
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50, 9, 60), rng.normal(size=60)
    return pl.DataFrame({"age": age, "dose": dose, "sick": (age + 9 * dose > 50).astype(int)})


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "sites").mkdir()
    for seed, name in enumerate(("north", "south")):
        table(seed).write_csv(tmp_path / f"sites/{name}.csv")
    (tmp_path / "s.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "s.toml", "--out", "kept"]) == 0
    return tmp_path


CHANGES = {
    "another unit": (table(1).with_columns(pl.col("age") * 12), "other features"),
    "two values": (table(1).with_columns(age=table(1)["age"].reverse()), "other features"),
    "further rows": (pl.concat([table(1), table(2)]), "another division of rows"),
    "other labels": (table(1).with_columns(sick=1 - pl.col("sick")), "another division of rows"),
}
COMMANDS = {
    "local": ["coefficients", "kept", "--local"],
    "a site's coefficients": ["coefficients", "kept", "--site", "north"],
    "a site's predictions": ["predict", "kept", "new.csv", "--site", "north"],
    "a site's model": ["export", "kept", "--to", "safetensors", "--site", "north"],
    "going on": ["run", "--resume", "kept", "--set", "run.rounds=6"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("south,complaint", CHANGES.values(), ids=CHANGES)
def test_changed_files_are_refused_where_they_are_needed(south, complaint, command, run, capsys):
    table(3).drop("sick").write_csv("new.csv")
    south.write_csv("sites/south.csv")
    assert main(command) == 2
    assert complaint in capsys.readouterr().err
    assert main(["predict", "kept", "new.csv"]) == 0  # the hub's model needs no data
    assert main(["coefficients", "kept"]) == 0


def test_files_as_they_were_and_folders_that_note_less_are_taken(run, capsys):
    assert main(COMMANDS["local"]) == 0
    file = run / "kept" / "result.json"
    older = read_json(file)
    for name in ("fingerprint of features", "division of rows", "kind of rows"):
        older.pop(name, None)
    write_json(file, older, shared=True)
    CHANGES["another unit"][0].write_csv("sites/south.csv")
    assert main(COMMANDS["local"]) == 0
    assert main(COMMANDS["going on"]) == 0
    assert fl.load("kept").final["round"] == 6


def test_a_comparison_is_not_continued_on_other_features(tmp_path):
    iris = fl.data.load("iris")
    other = dataclasses.replace(iris, x=iris.x + np.eye(150, 4))
    methods = {"a": fl.algorithms.FedAvg(lr=0.1)}

    def compared(dataset, **options):
        clients = fl.data.partition(dataset, "iid", clients=3)
        options = {"rounds": 2, "out": tmp_path / "kept"} | options
        return fl.compare(methods, fl.problems.Multinomial(), clients, **options)

    compared(iris)
    with pytest.raises(SettingsError, match=r"holds a run with other features \(values"):
        compared(other)
    with ThreadPoolExecutor(1) as executor:
        compared(iris, executor=executor)
        with pytest.raises(SettingsError, match=r"holds a run with other features \(values"):
            compared(other, executor=executor)
    compared(other, out=tmp_path / "other")
    assert len(read([tmp_path / "kept", tmp_path / "other"])) == 2
    assert len(read([tmp_path / "kept", tmp_path / "kept"])) == 1


def test_a_sweep_that_an_earlier_fedloom_began_goes_on_with_its_scores(tmp_path, monkeypatch):
    """Which knew no fingerprints of features; from then on the scores are of these features."""
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3)
    moved = dataclasses.replace(clients, train=clients.train._replace(x=clients.train.x + 1))
    ran = []

    def swept(clients):
        ran.clear()
        methods, over = {"fedavg": fl.algorithms.FedAvg(lr=0.1)}, {"lr": [0.1, 0.2]}
        return fl.sweep(
            *(methods, fl.problems.Multinomial(), clients),
            over=over,
            rounds=2,
            out=tmp_path,
            tried=lambda label, seed, value: ran.append(label),
        )

    with monkeypatch.context() as earlier:
        earlier.setattr(fl.data.Clients, "fingerprint", lambda self: None)
        first = swept(clients)
    assert len(ran) == 2
    assert swept(clients).rows == first.rows and ran == []
    swept(moved)
    assert len(ran) == 2 and len(read_json(tmp_path / "trials.json")) == 4
