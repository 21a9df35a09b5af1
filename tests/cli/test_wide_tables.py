"""Tables that are wider than the terminal."""

import re
import sys

from fedloom.cli.output import show_table


def test_what_is_too_wide_goes_on_in_a_second_table(capsys):
    names = [f"deviance_number_{k}" for k in range(14)]
    show_table([{"round": 1, **dict.fromkeys(names, 0.25)}], title="History")
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)  # no heading is broken
    assert printed.count("round") == 2 and printed.count("History") == 1


def test_what_fits_stays_one_table(capsys):
    show_table([{"round": 1, "summary": "a text of many short words " * 12}])
    assert capsys.readouterr().out.count("round") == 1


def lines(capsys):
    """What was printed, without the codes that make headings bold."""
    return re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()


def test_names_and_numbers_are_not_broken_beside_long_texts(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    name, spread = "a_method_with_a_long_name", "0.9539 ± 0.0016"
    show_table([{"method": name, "accuracy": spread, "about": "many short words " * 9}])
    printed = lines(capsys)
    assert any(f"│ {name} │ {spread} │ many" in line for line in printed)
    assert set(map(len, printed)) == {60}


def test_a_narrow_terminal_gets_all_the_same(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    show_table([{"name": "word" * 9, "path": "letter" * 9, "value": 1.5}])
    printed = lines(capsys)
    assert any("1.5" in line for line in printed) and max(map(len, printed)) <= 20
