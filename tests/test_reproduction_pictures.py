"""Pictures of reproductions and of studies, from known raw results and from those that are kept."""

import json

import numpy as np
import pytest
from matplotlib.colors import to_hex

from benchmarks.slope_studies import STUDIES
from fedloom.algorithms import EGVFL, EGVFLCoordinate
from fedloom.errors import SettingsError
from fedloom.experiments import papers, raw_results, reproduction_table, settings
from fedloom.experiments.options import CompareSettings
from fedloom.experiments.paper_panels import Panel
from fedloom.experiments.papers import Facts
from fedloom.experiments.raw_results import Raw, Run
from tools import (
    picture_axes,
    products,
    reproduction_pictures,
    reproductions,
    slope_pictures,
    slope_tables,
)
from tools.picture_styles import style

SHOWN = {"shows": "a figure", "data": "none", "minutes": 1.0}
KEPT = sorted(path.stem for path in reproductions.RAW.glob("*.jsonl"))
KEPT_STUDIES = [name for name in STUDIES if (reproductions.RAW / f"{name}.json").exists()]


def run(method, seed, values, status="done", metric="accuracy", **columns):
    rounds = list(range(0, 4 * len(values), 4))
    costs = {"round": rounds, "bytes_up": rounds, "bytes_down": rounds}
    return Run(method, seed, status, None, costs | columns | {metric: list(values)})


def raw_of(runs, metric="accuracy"):
    found = {}
    for one in runs:
        found.setdefault(one.method, []).append(one)
    return Raw({"metrics": [metric], "larger_is_better": True}, found)


def drawn(raw, shown=None, methods=None, **how):
    facts = None if shown is None else Facts(**SHOWN, **shown)
    return reproduction_pictures.draw(raw, CompareSettings(title="a", **how), facts, methods).figure


def test_a_run_that_ended_early_keeps_its_last_value_as_in_the_table():
    raw = raw_of([run("a", 0, (0.1, 0.3)), run("a", 1, (0.1, 0.5, 0.6, 0.7, 0.7))])
    (curve,) = drawn(raw, against="bytes", target=0.2).axes[0].curves
    assert list(curve.get_xdata()) == [8, 16, 24, 32]  # after the first, which is far below
    np.testing.assert_allclose(curve.get_ydata(), [0.4, 0.45, 0.5, 0.5])
    one = papers.Facts(shows="a table", data="none", minutes=1.0)
    assert reproduction_table.rows(raw, one, None)[0]["Accuracy"] == pytest.approx(0.5)


def test_where_a_seed_diverged_is_a_cross_and_the_curve_goes_on_with_the_others():
    """In one panel for all and in small ones alike."""
    broken = run("a", 1, (0.4, 0.5, 0.1), "diverged", round=[0, 4, 6])
    raw = raw_of([run("a", 0, (0.4, 0.6, 0.7, 0.8)), broken])
    for shown in ({}, {"apart": True}):
        figure = drawn(raw, shown, target=0.4)
        (panel,) = [panel for panel in figure.axes if panel.axison]
        curve = panel.curves[-1]
        assert list(curve.get_xdata()) == [0, 4, 8, 12]
        np.testing.assert_allclose(curve.get_ydata(), [0.4, 0.55, 0.7, 0.8])
        (cross,) = [line for line in panel.get_lines() if line.get_marker() == "x"]
        assert cross.get_xdata()[0] == 6 and "crosses: a seed diverged" in figure.get_suptitle()
        texts = [text.get_text() for text in panel.texts] + [panel.get_title()]
        assert any("(1 of 2 diverged)" in text for text in texts)


def test_panels_are_those_that_the_paper_file_names():
    """With its methods, by their names in the picture, and against products with columns."""
    gaps = {"EGVFL": (1.0, 0.1, 0.01), "some": (1.0, 0.2, 0.04), "GD": (1.0, 0.5, 0.25)}
    raw = raw_of([run(m, 0, y, metric="relative_gap") for m, y in gaps.items()], "relative_gap")
    work = Panel(against="products", methods=("EGVFL", "some"), title="Figure 7")
    methods = {"EGVFL": EGVFL(), "some": EGVFLCoordinate(rows=25, columns=25)}
    called = {"EGVFL": "EGVFL, beta-trick"}
    figure = drawn(raw, {"panels": (Panel(), work), "called": called}, methods, target=0.1)
    first, second = figure.axes
    assert [len(panel.curves) for panel in figure.axes] == [3, 2]
    assert [list(curve.get_xdata()) for curve in second.curves] == [[0, 16, 32], [0, 4, 8]]
    assert (second.get_title(), second.get_xlabel()) == (
        "Figure 7", "products with the parties' columns"
    )  # fmt: skip
    assert {text.get_text() for text in first.texts} == {"EGVFL, beta-trick", "some", "GD"}
    assert first.get_xlabel() == "round"
    assert {curve.get_marker() for curve in first.curves} == {"."}  # few evaluations


def test_products_of_an_iteration_are_those_that_the_page_counts():
    methods = settings.read(papers.available()["vertical-coordinates"]).algorithms
    assert [products.per_iteration(method) for method in methods.values()] == [4, 2, 1, 0.4]


def test_what_a_paper_file_says_of_panels_is_of_its_settings(tmp_path, monkeypatch):
    for name in KEPT:
        raw, one = raw_results.read(reproductions.RAW / f"{name}.jsonl"), papers.facts(name)
        assert {panel.metric for panel in one.panels} <= {None, *raw.metrics}, name
        assert set(one.called or {}) <= set(raw.runs), name
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "one.toml").write_text(
        '[one]\nshows = "x"\ndata = "none"\nminutes = 1\npanels = [{ agains = "round" }]\n'
    )
    (tmp_path / "one.toml").write_text("")
    monkeypatch.setattr(papers, "_folder", lambda: tmp_path)
    with pytest.raises(SettingsError, match="agains"):
        papers._all.__wrapped__()


def test_first_rounds_are_seen_on_a_logarithmic_axis():
    raw = raw_of([run("a", 0, (0.9, 0.02, *[0.5] * 40))])
    (panel,) = drawn(raw, {"panels": (Panel(early=True),)}).axes
    assert panel.get_xscale() == "log" and panel.get_ylim()[0] < 0.02
    assert panel.get_ylim()[1] < 0.6  # the start is not on such an axis
    assert list(panel.curves[0].get_xdata()[:2]) == [4, 8] and panel.get_xlim()[0] == 4
    assert drawn(raw).axes[0].get_ylim()[0] > 0.4


def test_a_panel_has_the_level_that_its_text_speaks_of():
    raw = raw_of([run("a", 0, (0.1, 0.2, 0.3), spread=[0.3, 0.2, 0.1])])
    level = {"panels": (Panel(), Panel(metric="spread", target=0.15))}
    first, second = drawn(raw, level, target=0.25).axes
    levels = [[line.get_ydata()[0] for line in panel.get_lines() if line.get_color() == "#555555"]
              for panel in (first, second)]  # fmt: skip
    assert levels == [[0.25], [0.15]]


def test_of_many_methods_the_spread_of_seeds_stands_beside_the_panel():
    def figure(count):
        many = [run(f"m{i}", seed, (0.1, 0.5 + i / 50 + seed / 100)) for i in range(count)
                for seed in (0, 1)]  # fmt: skip
        return drawn(raw_of(many))

    few, many = figure(4), figure(5)
    assert len(few.axes[0].collections) == 4 and "bands" in few.get_suptitle()
    assert not many.axes[0].collections and "bars at the right" in many.get_suptitle()
    bars = [line for line in many.axes[0].get_lines() if line.get_lw() == 2.6]
    assert sorted(bar.get_ydata()[1] - bar.get_ydata()[0] for bar in bars) == pytest.approx(
        [0.01] * 5
    )


def test_a_close_up_shows_the_third_digit_and_says_what_is_below():
    ends = {f"m{i}": 0.985 + i / 1000 for i in range(8)} | {"low": 0.5}
    raw = raw_of([run(m, 0, (0.1, 0.97, 0.98, y, y)) for m, y in ends.items()])
    figure = drawn(raw, target=0.99)
    panels = [panel for panel in figure.axes if panel.axison]
    assert len(panels) == 9
    low, high = panels[0].get_ylim()
    assert high - low < 0.1 and panels[0].get_xlim()[0] > 3
    assert [[text.get_text() for text in panel.texts] for panel in panels] == [[]] * 8 + [
        ["ends below, at 0.50"]
    ]
    assert drawn(raw, {"whole": True}).axes[0].get_ylim()[0] < 0.5


def test_small_panels_have_the_target_and_the_axis_name_where_nothing_stands_below():
    raw = raw_of([run(f"m{i}", 0, (1.0, 0.1, 0.01), metric="gap") for i in range(10)], "gap")
    figure = drawn(raw, target=1e-2)
    panels = [panel for panel in figure.axes if panel.axison]
    for panel in panels:
        assert any(set(line.get_ydata()) == {1e-2} for line in panel.get_lines())
    assert [panel.get_xlabel() for panel in panels] == [""] * 6 + ["round"] * 4
    assert "dashes: the target" in figure.get_suptitle() and figure.get_figwidth() < 9.5


def test_curves_that_lie_upon_each_other_are_all_seen():
    values = {"feddr": (0.9, 0.5, 0.4), "fedmid": (0.9, 0.8, 0.7), "fedadmm": (0.9, 0.5, 0.4)}
    curves = drawn(raw_of([run(m, 0, y) for m, y in values.items()])).axes[0].curves
    under, other, over = (curve.get_linewidth() for curve in curves)
    assert under > 2 * over and other == over == picture_axes.WIDTH
    values = {"feddr, one": (0.9, 0.5, 0.4), "feddr, other": (0.9, 0.5, 0.4)}
    solid, dashed = drawn(raw_of([run(m, 0, y) for m, y in values.items()])).axes[0].curves
    assert solid.get_linewidth() == dashed.get_linewidth() == picture_axes.WIDTH
    assert dashed.get_zorder() > solid.get_zorder()


def names_drawn():
    for name in KEPT:
        called = papers.facts(name).called or {}
        yield [called.get(m, m) for m in raw_results.read(reproductions.RAW / f"{name}.jsonl").runs]
    for name in KEPT_STUDIES:
        for part in parts(name):
            yield list(dict.fromkeys(part.names))


def parts(name):
    found = json.loads((reproductions.RAW / f"{name}.json").read_text())
    return slope_pictures.parts_of(found, slope_pictures.FACTS[name].get("panels", [{}]))


def test_a_name_has_one_style_in_all_pictures():
    """And the names of a picture have styles of their own; variants differ in colour as well."""
    known = {}
    for names in names_drawn():
        styles = {name: style(name, names) for name in names}
        lines = {name: (to_hex(s["color"]), str(s["linestyle"])) for name, s in styles.items()}
        assert len(set(lines.values())) == len(names)
        for name, line in lines.items():
            known.setdefault(name, set()).add(line)
    assert {name: found for name, found in known.items() if len(found) > 1} == {}
    of = {name: next(iter(found)) for name, found in known.items()}
    assert of["drfa"][0] != of["drfa, 5 of 10"][0]
    assert of["1: EGVFL, beta-trick"] == of["EGVFL, beta-trick"] != of["EGVFL"] == of["1: EGVFL"]
    assert not {of[name] for name in ("6: slacks", "8: proximal", "9: augmented", "10: dual")} & {
        of[name] for name in ("GD", "AGD", "ADMM", "RandK 25%", "RandK 50%", "2 of 5")
    }


def test_every_study_has_a_title_and_every_line_a_panel():
    assert set(STUDIES) <= set(slope_pictures.FACTS)
    for name in KEPT_STUDIES:
        lines = slope_tables.series(json.loads((reproductions.RAW / f"{name}.json").read_text()))
        shown = [points for part in parts(name) for points in part.lines.values()]
        assert all(points in shown for points in lines.values()), name
    sums, means = parts("vertical-head")
    assert set(sums.lines) == set(means.lines) and len(sums.lines) == 6
    assert sums.lines["GD"] == means.lines["GD"] and sums.lines["EGVFL"] != means.lines["EGVFL"]


@pytest.mark.parametrize(
    ("varied", "scale"),
    [("seconds", "linear"), ("local iterations", "linear"), ("steps of adaptation", "log")],
)
def test_a_study_is_drawn_with_what_was_not_reached(tmp_path, monkeypatch, varied, scale):
    points = [
        {"series": "a", "x": x, "seed": 0, "value": v} for x, v in ((1, 5), (2, 9), (4, None))
    ]
    points += [{"series": "b", "x": x, "seed": s, "value": 7} for x in (1, 2, 4) for s in (0, 1)]
    about = {"varied": varied, "measured": "rounds", "by_theory": None, "log": True}
    (tmp_path / "known.json").write_text(json.dumps(about | {"points": points}))
    monkeypatch.setattr(slope_tables, "RAW", tmp_path)
    figure = slope_pictures.draw("known").figure
    (panel,) = figure.axes
    assert panel.get_xscale() == scale
    (triangle,) = [line for line in panel.get_lines() if line.get_marker() == "^"
                   and line.get_markerfacecolor() == "white"]  # fmt: skip
    assert triangle.get_xdata()[0] == 4 and triangle.get_ydata()[0] > 9
    for said in ("triangles: not reached", "dots: single seeds"):
        assert said in figure.get_suptitle()
