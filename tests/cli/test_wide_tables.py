"""Tables that are wider than the terminal."""

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
