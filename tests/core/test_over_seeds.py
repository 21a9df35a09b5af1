"""What several seeds say together, against SciPy's statistics."""

import math
import types

import numpy as np
import pytest
from scipy import stats

from fedloom.errors import ParameterError
from fedloom.experiments import over_seeds, rows_of_methods
from fedloom.experiments.paper_tables import best_of, with_spread
from fedloom.experiments.rows_of_methods import Asked

ONE = {0: 0.91, 1: 0.88, 2: 0.93, 3: 0.90}
OTHER = {0: 0.89, 1: 0.85, 2: 0.93, 4: 0.2}  # three seeds in common


def test_the_spread_is_that_of_a_sample_and_one_seed_has_none():
    values = list(ONE.values())
    assert over_seeds.spread(values) == pytest.approx(np.std(values, ddof=1))
    assert over_seeds.spread([0.5]) is None and over_seeds.interval([0.5], 0.95) is None
    assert over_seeds.spread([0.5, float("nan")]) is None


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_are_students(level):
    values = list(ONE.values())
    expected = stats.t.interval(level, 3, np.mean(values), stats.sem(values))
    assert over_seeds.interval(values, level) == pytest.approx(expected, rel=1e-12)


def test_methods_are_paired_by_their_seeds():
    found = over_seeds.difference(ONE, OTHER, 0.9)
    common = [0, 1, 2]
    test = stats.ttest_rel([ONE[s] for s in common], [OTHER[s] for s in common])
    assert found.p == pytest.approx(test.pvalue, rel=1e-12)
    ends = test.confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=1e-12)
    assert over_seeds.difference(ONE, {0: 0.1}, 0.9) is None


def test_differences_that_are_all_the_same_are_not_tested():
    same = over_seeds.difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, 0.95)
    apart = over_seeds.difference({0: 1.0, 1: 2.0}, {0: 0.0, 1: 1.0}, 0.95)
    assert same == (0, None, None, None) and apart == (1, None, None, None)
    found = np.float32([14, 13, 17])  # of 41 rows, and 3 more: accuracies, to rounding
    one, other = (dict(enumerate((n / np.float32(41)).tolist())) for n in (found + 3, found))
    rounded = over_seeds.difference(one, other, 0.95)
    assert rounded == (pytest.approx(3 / 41), None, None, None)
    assert over_seeds.spread([0.2] * 3) == 0 and over_seeds.interval([0.2] * 3, 0.95) is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(("acc",)), "metrics must be columns of the history; got 'acc'. Did you mean 'accu"),
        (Asked(("loss",), interval=95), "interval must be a number between 0 and 1"),
        (Asked(("loss",), paired="b"), "paired must name one of the methods; got 'b'"),
    ],
)
def test_a_table_of_what_is_not_there_is_refused(asked, message):
    run = types.SimpleNamespace(final={"accuracy": 0.5, "loss": 1.0})
    with pytest.raises(ParameterError, match=message):
        rows_of_methods.table({"a": [run]}, asked)


@pytest.mark.parametrize(
    "mean,spread,text",
    [
        (0.91234, 0.0312, "0.912 ± 0.031"),
        (0.91234, None, "0.9123"),
        (1234.5, 56.0, "1234 ± 56"),
        (1.5e-8, 2.1e-9, "1.50e-08 ± 2.1e-09"),
        (0.5, 0.0, "0.5 ± 0"),
    ],
)
def test_a_mean_has_the_digits_of_its_spread(mean, spread, text):
    assert with_spread(mean, spread) == text


def test_the_best_as_they_are_shown():
    assert best_of([0.5, 0.7, 0.70000001], True) == {1, 2}
    assert best_of([0.5, float("nan"), 0.7], False) == {0}
    assert best_of([0.5], True) == set() and best_of([0.5, float("nan")], True) == set()
    assert best_of([float("inf"), float("inf"), float("nan")], False) == set()
    assert best_of([0.91231, 0.91234], True, [1e-5, 1e-5]) == {1}  # more digits are shown
    assert best_of([0.91, 0.93, 0.912], True, [0.1, 0.12, 0.3]) == {1}
    assert best_of([0.9124, 0.9136], False, [0.1, 0.1]) == {0, 1}  # both are 0.91 ± 0.10


def test_a_target_that_is_reached_exactly_counts():
    """Nine of ten are 0.9, in single precision too, which is a little less."""
    nine = float(np.float32(0.9))
    assert 0.89999997 < nine < 0.9 and over_seeds.reaches(nine, 0.9, True)
    assert not over_seeds.reaches(0.8999, 0.9, True) and not over_seeds.reaches(0.1001, 0.1, False)
    assert over_seeds.reaches(float(np.float32(0.1)), 0.1, False)
    assert not over_seeds.reaches(math.nan, 0.9, True)
