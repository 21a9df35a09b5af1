"""Sentences of the page on composite methods, held against raw results."""

import numpy as np
import pytest

from measured import mean_of, page_of, rows_of


def test_what_the_readme_says_of_composite_methods():
    full = {m: row["Optimality"] for m, row in rows_of("composite-full-gradients").items()}
    assert full["decoupled_prox"] < 1e-6 < 0.1 < min(full["fedmid"], full["feddualavg"])
    small, middle, large = rows_of("composite-step-sizes").values()
    assert small["round 300"] > large["round 300"] > middle["round 300"]
    assert small["Optimality"] < middle["Optimality"] < large["Optimality"]
    after_300 = [row["round 300"] for row in rows_of("composite-local-steps").values()]
    assert after_300 == sorted(after_300, reverse=True)


def test_what_is_said_of_steps():
    """How fast each step size is, and the slope of the floor against rows in a batch."""
    early = [
        mean_of("composite-step-sizes", "optimality", f"eta = {e}", 30) for e in (1, 0.2, 0.02)
    ]
    assert [round(value, 3) for value in early] == [0.024, 0.434, 0.901]
    rows = np.array([5, 20, 80, 320])
    slope = np.polyfit(np.log(rows), np.log((500 - rows) / 499 / rows), 1)[0]
    assert round(float(slope), 2) == -1.23
    page = page_of("composite")
    assert "0.024 with eta = 1, 0.43 with 0.2 and 0.90 with 0.02" in page and "of -1.23" in page


def test_what_is_said_of_zeros():
    """On a9a two methods have those of the optimum, and two have more."""
    rows = rows_of("composite-a9a")
    zeros = [rows[m]["Sparsity"] for m in ("decoupled_prox", "feddr", "fedmid", "feddualavg")]
    assert zeros[0] == zeros[1] == pytest.approx(78 / 123, rel=1e-4) and min(zeros[2:]) > zeros[0]
