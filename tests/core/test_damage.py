"""Damaged files of every kind: only fedloom's own errors come out, and no change goes unseen."""

import pytest

from fedloom.errors import DataError
from verification.damage import subjects, trying
from verification.damage.__main__ import main

COUNT = {"run": 150, "resume": 60}  # others are read in a millisecond


@pytest.mark.parametrize("name", subjects.SUBJECTS)
def test_damaged_files_are_refused_by_name(name, tmp_path):
    subject = subjects.SUBJECTS[name]
    cases = list(trying.try_all(subject, COUNT.get(name, 200), 1, tmp_path / name))
    assert len(cases) > 50
    assert [str(case) for case in cases if case.outcome in trying.FAULTS] == []
    assert sum(case.outcome == trying.REFUSED for case in cases) > len(cases) // 10


def planted(error):
    """A reader of text files that does something wrong where a file begins with another byte."""

    def read(folder):
        if (folder / "text.txt").read_bytes()[:1] != b"a" and error is not None:
            raise error

    def make(folder):
        (folder / "text.txt").write_text("abc")

    return subjects.Subject("planted", make, read, ("*.txt",))


@pytest.mark.parametrize(
    "error,outcome",
    [
        (ValueError("raw"), trying.RAW),
        (BaseException("a panic"), trying.RAW),
        (DataError("which file?"), trying.NAMELESS),
        (None, trying.SILENT),
    ],
)
def test_what_readers_do_wrong_is_found(error, outcome, tmp_path):
    found = {case.outcome for case in trying.try_all(planted(error), 60, 0, tmp_path / "planted")}
    assert outcome in found


def test_the_command_counts(capsys):
    assert main(["--count", "20", "--only", "server", "libsvm"]) == 0
    assert "0 faults in" in capsys.readouterr().out
