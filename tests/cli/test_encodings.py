"""No verb fails on, or garbles, what the encoding of its output does not have."""

import os
import subprocess
import sys

import pytest

SETTINGS = """
[data]
sites = "sites/*.csv"
label = "Größe"

[problem]
kind = "logistic"

[algorithm]
key = "fedavg"
lr = 0.1

[run]
rounds = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("überall")
    (folder / "sites").mkdir()
    for name in ("Köln", "Łódź", "京都"):
        rows = "".join(f"{i / 2},{'ja' if i % 2 else 'nö'}\n" for i in range(20))
        (folder / "sites" / f"{name}.csv").write_text(f"größe,Größe\n{rows}", encoding="utf-8")
    (folder / "it.toml").write_text(SETTINGS, encoding="utf-8")
    return folder


def said(encoding, folder, *words):
    """What a verb prints where standard output has this encoding, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "fedloom", *words],
        env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        cwd=folder,
        capture_output=True,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode(encoding)
    return done.stdout.decode(encoding), done.returncode


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["list"],
        ["explain", "scaffold"],
        ["reproduce", "--list"],
        ["check", "fedavg", "--law", "bytes"],
        ["run", "it.toml"],
    ],
    ids=lambda words: words[0],
)
def test_every_encoding_is_served(encoding, words, folder):
    printed, status = said(encoding, folder, *words)
    assert status == 0 and printed.strip() and "\\u" not in printed


def test_marks_and_names_have_plain_forms(folder):
    printed, _ = said("ascii", folder, "check", "fedavg", "--law", "bytes")
    assert "| + | bytes " in printed and "?" not in printed
    words = ["compare", "it.toml", "--set", "compare.seeds=2", "--format", "markdown"]
    printed, status = said("ascii", folder, *words)
    assert status == 0 and " +- " in printed
    printed, status = said("ascii", folder, "run", "it.toml", "--out", "Ausgabe-ü")
    assert status == 0 and "kept in Ausgabe-u" in printed


def test_marks_are_as_they_are_where_they_can_be_printed(folder):
    assert "│ ✓ │ bytes" in said("utf-8", folder, "check", "fedavg", "--law", "bytes")[0]


def test_predictions_are_not_printed_with_other_letters(folder):
    assert said("utf-8", folder, "run", "it.toml", "--out", "exact")[1] == 0
    words = ["predict", "exact", "sites/Köln.csv", "--keep", "Größe"]
    done = said("utf-8", folder, *words)
    assert done[1] == 0 and "nö" in done[0]
    assert said("ascii", folder, *words) == ("", 2)
