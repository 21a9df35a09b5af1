"""Sentences of the page on composite methods, held against raw results."""

import numpy as np
import pytest

from measured import mean_of, page_of, points_of, raw_of, rows_of, setup_of


def test_what_the_readme_says_of_composite_methods():
    full = {m: row["Optimality"] for m, row in rows_of("composite-full-gradients").items()}
    assert full["decoupled_prox"] < 1e-6 < 0.1 < min(full["fedmid"], full["feddualavg"])
    small, middle, large = rows_of("composite-step-sizes").values()
    assert small["round 300"] > large["round 300"] > middle["round 300"]
    assert small["Optimality"] < middle["Optimality"] < large["Optimality"]
    after_300 = [row["round 300"] for row in rows_of("composite-local-steps").values()]
    assert after_300 == sorted(after_300, reverse=True)


def test_fedadmm_is_feddr_here():
    """With the same digits, as its step is one over rho."""
    for name in ("composite-full-gradients", "composite-batches"):
        methods, runs = setup_of(name).algorithms, raw_of(name).runs
        assert methods["feddr"].relaxation == 1
        assert methods["feddr"].step == 1 / methods["fedadmm"].rho == 50
        assert methods["fast_fedda"].mu == setup_of(name).problem.l2 == 0.01
        for one, other in zip(runs["feddr"], runs["fedadmm"], strict=True):
            assert one.columns["optimality"] == other.columns["optimality"]
    assert setup_of("composite-a9a").algorithms["feddr"].step == 100


def test_what_is_said_of_how_fast_steps_are():
    early = [
        mean_of("composite-step-sizes", "optimality", f"eta = {e}", 30) for e in (1, 0.2, 0.02)
    ]
    assert [round(value, 3) for value in early] == [0.024, 0.434, 0.901]
    assert "0.024 with eta = 1, 0.43 with 0.2 and 0.90 with 0.02" in page_of("composite")
    rows = rows_of("composite-local-steps")
    taken = [steps * rows[f"tau = {steps}"]["rounds to stay"] for steps in (2, 5, 10)]
    assert taken == [1840, 1850, 1900]


def test_what_is_said_of_where_steps_end():
    """The root of the mean square over rounds 4000 to 6000, whose square goes with the step."""

    def level(name, method):
        seeds = raw_of(name).runs[method]
        late = np.array(seeds[0].columns["round"]) >= 4000
        return np.sqrt(np.mean([np.array(s.columns["optimality"])[late] ** 2 for s in seeds]))

    steps = (1, 0.2, 0.02)
    levels = [level("composite-step-sizes", f"eta = {eta}") for eta in steps]
    assert [round(value, 4) for value in levels] == [0.0045, 0.0019, 0.0006]
    by_step = np.square(levels) / steps
    assert by_step.max() < 1.1 * by_step.min()
    levels = [level("composite-local-steps", f"tau = {count}") for count in (2, 5, 10)]
    assert [round(value, 4) for value in levels] == [0.0021, 0.0020, 0.0019]
    on_its_way = mean_of("composite-step-sizes", "optimality", "eta = 0.02", 3000)
    assert round(on_its_way, 5) == 0.00093


def test_the_level_is_one_where_all_settings_come_to_stay():
    """All seeds but one without leaving it again."""
    again = []
    for name in ("composite-step-sizes", "composite-local-steps"):
        assert setup_of(name).compare.target == 0.01
        for method, runs in raw_of(name).runs.items():
            for run in runs:
                above = np.array(run.columns["optimality"]) > 0.01
                since = np.flatnonzero(above)[-1] + 1
                assert since < len(above)
                if since > np.flatnonzero(~above)[0]:
                    again.append((method, run.columns["round"][since]))
    assert again == [("eta = 1", 1440)]


def test_what_is_said_of_floors():
    """The slope against rows in a batch that draws without replacement lead one to expect."""
    rows = np.array([5, 20, 80, 320])
    slope = np.polyfit(np.log(rows), np.log((500 - rows) / 499 / rows), 1)[0]
    assert f"a slope of {slope:.2f} is to be expected" in page_of("composite")


def test_what_is_said_of_unlike_clients():
    """The pace falls a little, and as much for one client with the rows of all."""
    rounds, left = points_of("composite-paces"), points_of("composite-unlike")
    alphas = (0.1, 1.0, 10.0, 100.0)
    fall = 1 - rounds["decoupled_prox", 0.1] / rounds["decoupled_prox", 100.0]
    assert f"by {100 * fall:.0f} % from the first alpha" in page_of("composite")
    for alpha in alphas:
        apart = rounds["decoupled_prox", alpha] - rounds["decoupled_prox, one client", alpha]
        assert abs(apart) <= 1
    assert [f"{left['decoupled_prox', alpha]:.0e}" for alpha in (0.1, 100.0)] == ["2e-09", "6e-08"]
    for method in ("fedmid", "feddualavg"):
        plateaus = [left[method, alpha] for alpha in alphas]
        assert plateaus == sorted(plateaus) and plateaus[0] > 0.15


def test_what_is_said_of_zeros():
    """On a9a two methods have those of the optimum, and two have more."""
    rows = rows_of("composite-a9a")
    zeros = [rows[m]["Sparsity"] for m in ("decoupled_prox", "feddr", "fedmid", "feddualavg")]
    assert zeros[0] == zeros[1] == pytest.approx(78 / 123, rel=1e-4) and min(zeros[2:]) > zeros[0]
