"""What `fl.reference` says of its solution, and what is measured against it."""

import warnings

import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import FedloomError, ParameterError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 3))
TWICE = np.c_[X, X[:, 0]]  # the last column says what the first one says
Y = (X[:, 0] + RNG.normal(size=40) > 0).astype(int)
L1, ElasticNet = fl.problems.L1, fl.problems.ElasticNet


def clients(x):
    return fl.data.from_arrays([(x[:15], Y[:15]), (x[15:], Y[15:])])


def numbers(x):
    return fl.data.from_arrays([(x[:15], Y[:15]), (x[15:], Y[15:])], regression=True)


@pytest.mark.parametrize(
    "problem,x,unique",
    [
        (fl.problems.Logistic(), X, True),
        (fl.problems.Logistic(), TWICE, False),
        (fl.problems.Logistic(l2=0.1), TWICE, True),
        (fl.problems.Logistic(regulariser=L1(0.02)), TWICE, False),
        (fl.problems.Logistic(regulariser=ElasticNet(0.02, 0.1)), TWICE, True),
        (fl.problems.Multinomial(l2=0.1, intercept=True), X, False),  # all biases may shift
    ],
)
def test_whether_the_solution_is_the_only_one_is_found_out(problem, x, unique):
    assert fl.reference(problem, clients(x)).unique == unique


def test_more_coordinates_than_a_hessian_is_formed_for():
    wide = RNG.normal(size=(40, 601))
    assert not fl.reference(fl.problems.LeastSquares(), numbers(wide), tolerance=1e-9).unique
    assert fl.reference(fl.problems.LeastSquares(l2=1.0), numbers(wide), tolerance=1e-9).unique


def test_gradient_steps_are_counted_one_by_one():
    """This one takes between 14 and 20."""
    wide = numbers(np.random.default_rng(1).normal(size=(40, 601)))
    bowl = fl.problems.LeastSquares(l2=1.0)
    assert fl.reference(bowl, wide, tolerance=1e-9, iterations=24).residual < 1e-7
    with pytest.raises(FedloomError, match="the reference solution was not reached"):
        fl.reference(bowl, wide, tolerance=1e-9, iterations=12)


def test_steep_problems_are_solved_as_exactly_as_others():
    """Steps are short there, so an iterate moves little long before it is near."""
    wide = numbers(30 * np.random.default_rng(1).normal(size=(40, 601)))
    steep = fl.problems.LeastSquares(l2=1000.0)
    assert fl.reference(steep, wide, tolerance=1e-9).residual < 1e-7


def run(metric, problem, x):
    found = fl.reference(problem, clients(x))
    method = fl.algorithms.DecoupledProx(lr=0.5)
    return fl.simulate(
        method, problem, clients(x), rounds=2, metrics=(metric,), optimum=found, precision="float64"
    )


@pytest.mark.parametrize("metric", ["distance", "optimality"])
def test_a_distance_to_one_of_many_solutions_warns(metric):
    problem = fl.problems.Logistic(regulariser=L1(0.02))
    with pytest.warns(UserWarning, match=f"not unique, so {metric} .* Use 'gap'"):
        result = run(metric, problem, TWICE)
    assert result.about["optimum"] == "not unique"


def test_a_gap_and_a_unique_solution_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "optimum" not in run("distance", fl.problems.Logistic(l2=0.1), X).about
        found = run("gap", fl.problems.Logistic(regulariser=L1(0.02)), TWICE)
    assert type(found.final["gap"]) is float  # which goes into JSON, whatever the precision


@pytest.mark.parametrize("constraint", [fl.problems.Simplex(total=1.0), fl.problems.Box(0.1, 1.0)])
def test_where_the_zero_model_is_not_allowed_no_gap_is_relative_to_it(constraint):
    """Relative to infinity every model has a gap of 0."""
    problem = fl.problems.Logistic(l2=0.01, regulariser=constraint)
    with pytest.raises(ParameterError, match=r"relative_gap.* violates a constraint.*Use 'gap'"):
        run("relative_gap", problem, X)
    assert run("gap", problem, X).final["gap"] > 0


@pytest.mark.parametrize("metric,plain", [("optimality", "distance"), ("relative_gap", "gap")])
def test_where_the_zero_model_is_the_optimum_nothing_is_relative_to_it(metric, plain):
    strong = fl.problems.Logistic(regulariser=L1(10.0))
    with pytest.raises(ParameterError, match=f"{metric}.* relative to the zero model.*{plain}"):
        run(metric, strong, X)
    assert np.isfinite(run(plain, strong, X).final[plain])
