"""Algorithms 2 to 5 on mushrooms: they go on to the solution at a constant rate.

Every twentieth row and a penalty ten times the experiments', so that it is quick;
`fedloom reproduce vertical-linear` is the same on all rows.
"""

import functools

import numpy as np
import pytest

import fedloom as fl
from conftest import data_folder
from fedloom.algorithms import (
    EGVFL,
    EGVFLCompressed,
    EGVFLCoordinate,
    EGVFLErrorFeedback,
    EGVFLPartial,
)
from fedloom.data.packed import find
from fedloom.operators.compressors import RandK, TopK
from tiers import in_turn, thorough

PROBLEM = fl.problems.Vertical(l2=0.1034486, mean=True)
RANDOMISED = {
    "randk": (EGVFLCompressed(RandK(25), step=0.25, beta_trick=True), 600),
    "topk": (EGVFLErrorFeedback(TopK(25), refresh=0.25, step=0.1, beta_trick=True), 1400),
    "partial": (EGVFLPartial(2, step=0.25, beta_trick=True), 600),
    "coordinate": (EGVFLCoordinate(25, 25, step=0.2, beta_trick=True), 700),
}
METHODS = RANDOMISED | {"whole": (EGVFL(step=0.25, beta_trick=True), 300)}


@pytest.fixture(scope="module")
def mushrooms():
    """Five parties, and the solution."""
    folder = data_folder()
    if folder is None or find(folder, "libsvm/mushrooms") is None:
        pytest.skip("no copy of mushrooms")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDLOOM_DATA", str(folder))
        whole = fl.data.load("mushrooms")
    columns = np.array_split(np.arange(whole.x.shape[1]), 5)
    x, y = whole.x.toarray()[::20].astype(float), 2.0 * whole.y[::20] - 1
    curvature = x.T @ x / len(y) + PROBLEM.l2 * np.eye(x.shape[1])
    parties = fl.data.from_parties([x[:, block] for block in columns], y)
    return parties, np.linalg.solve(curvature, x.T @ y / len(y))


@pytest.fixture(scope="module")
def gaps(mushrooms):
    """The logarithm of the relative gap, at 21 times; each method runs once."""
    parties, optimum = mushrooms

    @functools.cache
    def of(name):
        method, rounds = METHODS[name]
        run = fl.simulate(
            method, PROBLEM, parties, rounds=rounds, eval_every=rounds // 20, precision="float64",
            optimum=optimum, metrics=("relative_gap",),
        )  # fmt: skip
        return np.log10([row["relative_gap"] for row in run.rows])

    return of


@pytest.mark.parametrize("name", in_turn(RANDOMISED, ["topk", "partial"]))
def test_randomised_methods_converge_linearly(name, gaps):
    found = gaps(name)
    assert found[-1] < -8
    early, late = found[4] - found[12], found[12] - found[20]
    assert late == pytest.approx(early, rel=0.2)


@thorough
def test_reference_points_halve_the_pace(gaps):
    """In the mean x + w moves by step F, so at one step it takes twice EGVFL's iterations."""
    assert gaps("randk")[15] == pytest.approx(gaps("whole")[15], rel=0.1)
