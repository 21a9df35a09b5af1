"""`fedloom check`: a method in a file, held to the laws."""

import json

import pytest

from fedloom.cli.main import main

METHOD = """
from typing import Any, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import everyone
from fedloom.parameters import param, positive
from fedloom.protocol import Algorithm, algorithm, ask


class Hub(NamedTuple):
    model: Any


@algorithm
class Mine(Algorithm):
    lr: float = param(positive, "step size")

    def init_hub(self, fed, key, /):
        return Hub(fed.init_model(key))

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        return Hub(hub.model + replies.mean()), ()

    def train(self, client, model, f, key, /):
        return client, -self.lr * f.grad(model, key)


@algorithm
class Hasty(Mine):
    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        if jnp.linalg.norm(hub.model) > 1:
            return hub, ()
        return Hub(hub.model + replies.mean()), ()


READY = Mine(lr=0.2)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(METHOD)
    (tmp_path / "wrong.py").write_text("import fedloom\n\nfedloom.nothing\n")
    return tmp_path


def checked(capsys, *arguments):
    status = main(["check", *arguments, "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_method_in_a_file_is_checked_with_small_values(folder, capsys):
    status, report = checked(capsys, "own.py:Mine", "--law", "seeds")
    assert status == 0 and report["ok"] and report["method"] == "Mine(lr=0.1)"
    status, report = checked(capsys, "own.py:Mine", "--law", "contract", "--set", "lr=0.5")
    assert report["method"] == "Mine(lr=0.5)"
    status, report = checked(capsys, "own.py:READY", "--law", "contract", "--set", "lr=0.3")
    assert report["method"] == "Mine(lr=0.3)"


def test_a_broken_law_exits_with_1_and_shows_the_line(folder, capsys):
    assert main(["check", "own.py:Hasty"]) == 1
    printed = capsys.readouterr().out
    assert "✗ contract" in printed and "if jnp.linalg.norm(hub.model) > 1:" in printed
    assert "own.py:34" in printed and "Traceback" not in printed
    assert "from own import Hasty" in printed  # in the code that shows it again


def test_a_method_of_the_catalogue_is_checked_with_its_trial(folder, capsys):
    status, report = checked(capsys, "fedavg", "--law", "contract")
    assert status == 0 and "cohort=3" in report["method"]


MISUSES = {
    "no such file": (["none.py:Mine"], "none.py. A relative path"),
    "no such name": (["own.py:Mien"], "own.py has no 'Mien'. Did you mean 'Mine'"),
    "no such module": (["no.such:Mine"], "there is no module 'no' here"),
    "raises": (["wrong.py:Mine"], "wrong.py, line 3): AttributeError"),
    "no key": (["fedavgg"], "Did you mean 'fedavg'"),
    "no class": (["own.py:param"], "must be an object of a class with @algorithm"),
    "no name": (["own.py:"], "must be a known key; got 'own.py:'"),
    "rule": (["own.py:Mine", "--set", "lr=-1"], "lr must be a number > 0; got -1"),
    "parameter": (["own.py:Mine", "--set", "lrr=1"], "lrr: is not a parameter of Mine"),
}


@pytest.mark.parametrize("arguments,complaint", MISUSES.values(), ids=MISUSES)
def test_misuse_exits_with_2_and_says_what_to_do(arguments, complaint, folder, capsys):
    assert main(["check", *arguments]) == 2
    message = capsys.readouterr().err
    assert complaint in message and "Traceback" not in message


def test_a_file_may_have_the_name_of_a_module(folder, capsys):
    import json as before

    (folder / "json.py").write_text(METHOD)
    status, report = checked(capsys, "json.py:Mine", "--law", "contract")
    assert status == 0 and report["method"] == "Mine(lr=0.1)"
    import json as after

    assert after is before
