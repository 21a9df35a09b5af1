"""Errors in settings with several tables of one name, and pictures of what is not there."""

import pytest

import fedloom as fl
from fedloom.cli.main import main
from fedloom.errors import SettingsError
from fedloom.experiments import settings
from fedloom.experiments.written import document, inline

SETTINGS = """
data = { name = "iris" }
partition = { scheme = "iid", clients = 4 }
problem = { kind = "multinomial" }

[[algorithm]]
key = "fedavg"
lr = 0.1

[[algorithm]]
name = "mine"
key = "fedavg"
lr = 0.2

[[wrapper]]
kind = "unreliable"
drop = 0.1

[[wrapper]]
kind = "unreliable"
drop = 0.2

[run]
rounds = 1
"""


@pytest.mark.parametrize(
    "before,after,complaint",
    [
        ("lr = 0.1", "lr = -1", "line 8, algorithm.lr (algorithm 1, 'fedavg'): FedAvg: lr must be"),
        ("lr = 0.2", "lr = -1", "line 13, algorithm.lr (algorithm 2, 'mine'): FedAvg: lr must be"),
        ("lr = 0.2", "", "line 10, algorithm (algorithm 2, 'mine'): FedAvg needs lr"),
        ("lr = 0.2", "l = 1", "line 13, algorithm.l (algorithm 2, 'mine'): is not a parameter of"),
        ('name = "mine"\n', "", "algorithm (algorithm 2, 'fedavg'): there are two methods named"),
        ("drop = 0.2", "drop = 2", "line 21, wrapper.drop (wrapper 2, 'unreliable')"),
        ('[[algorithm]]\nname = "mine"\nkey = "fedavg"\nlr = 0.2', "", None),
    ],
)
def test_an_error_says_which_of_several_tables_is_meant(before, after, complaint, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SETTINGS.replace(before, after))
    if complaint is None:  # one table in double brackets: its line is found too
        file.write_text(file.read_text().replace("lr = 0.1", "lr = -1"))
        complaint = "line 8, algorithm.lr: FedAvg: lr must be"
    with pytest.raises(SettingsError) as caught:
        settings.read(file)
    assert complaint in str(caught.value)


def test_what_only_the_run_finds_out_names_the_method(tmp_path, capsys):
    (tmp_path / "s.toml").write_text(SETTINGS.replace("lr = 0.2", "lr = 0.2\ncohort = 99"))
    assert main(["compare", str(tmp_path / "s.toml"), "--out", str(tmp_path / "o")]) == 2
    assert "error: method 'mine': cohort must be" in capsys.readouterr().err


def test_a_change_of_one_of_several_tables_is_refused(tmp_path):
    (tmp_path / "s.toml").write_text(SETTINGS)
    with pytest.raises(SettingsError, match="algorithm is one of 2 tables, so edit the file"):
        settings.read(tmp_path / "s.toml", ["algorithm.lr=1"])


def test_settings_survive_being_written(tmp_path):
    (tmp_path / "s.toml").write_text(SETTINGS)
    chosen = settings.read(tmp_path / "s.toml")
    (tmp_path / "again.toml").write_text(document(chosen.tables))
    assert settings.read(tmp_path / "again.toml").tables == chosen.tables
    odd = {"a b": [1, 2.5, True, float("inf")], "t": {'é\n"': "\\ \x7f 🙂"}, "none": []}
    (tmp_path / "odd.toml").write_text(document({"data": odd}), encoding="utf-8")
    assert settings.tables_of(tmp_path / "odd.toml") == {"data": odd}
    assert inline(float("nan")) == "nan"


def test_a_picture_of_what_was_not_measured_is_refused():
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3)
    problem, method = fl.problems.Multinomial(), fl.algorithms.FedAvg(lr=0.1)
    result = fl.simulate(method, problem, clients, rounds=1)
    with pytest.raises(fl.FedloomError, match=r"got 'acuracy'\. Did you mean 'accuracy"):
        result.plot("acuracy")
    with pytest.raises(fl.FedloomError, match=r"against must be one of .*Did you mean 'round'"):
        result.plot("loss", against="rounds")
    comparison = fl.compare({"f": method}, problem, clients, rounds=1)
    with pytest.raises(fl.FedloomError, match=r"got 'los'\. Did you mean 'loss'"):
        comparison.plot("los")
