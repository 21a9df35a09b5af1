"""Maps onto the simplex against generic constrained solvers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import minimize
from scipy.special import wrightomega

from fedloom.operators.proximal import project_simplex
from fedloom.operators.simplex import (
    project_floored_simplex,
    proximal_kl,
    proximal_quadratic,
    wright_omega,
)

RNG = np.random.default_rng(5)
POINTS = [RNG.normal(0, scale, 6) for scale in (0.1, 0.5, 1.0, 3.0)]
PRIOR = RNG.dirichlet(np.ones(6))


def kl(u):
    return np.sum(u * np.log(u / PRIOR))


def solve(value, slope, low=1e-12):
    """The minimiser over the simplex, by sequential quadratic programming from several starts."""
    ones = {"type": "eq", "fun": lambda u: u.sum() - 1, "jac": lambda u: np.ones(6)}
    runs = [
        minimize(
            value, start, jac=slope, bounds=[(low, 1)] * 6, constraints=ones, method="SLSQP",
            options={"ftol": 1e-18, "maxiter": 1000},
        )
        for start in (np.full(6, 1 / 6), PRIOR)
    ]  # fmt: skip
    return min(runs, key=lambda run: run.fun).x


@pytest.mark.parametrize("a", POINTS)
@pytest.mark.parametrize("c", [0.05, 0.7, 20.0])
def test_quadratic_proximal_map_is_the_solvers(a, c, double):
    expected = solve(
        lambda u: c / 2 * np.sum((u - PRIOR) ** 2) + np.sum((u - a) ** 2) / 2,
        lambda u: c * (u - PRIOR) + u - a,
        low=0,
    )
    np.testing.assert_allclose(proximal_quadratic(jnp.asarray(a), c, PRIOR), expected, atol=1e-8)


@pytest.mark.parametrize("a", POINTS)
@pytest.mark.parametrize("c", [0.05, 0.7, 20.0])
def test_kl_proximal_map_is_the_solvers(a, c, double):
    """The generic solver first; then the optimality conditions, which are sharper than it."""
    got = np.asarray(proximal_kl(jnp.asarray(a), c, PRIOR))
    expected = solve(
        lambda u: c * kl(u) + np.sum((u - a) ** 2) / 2,
        lambda u: c * (np.log(u / PRIOR) + 1) + u - a,
    )
    np.testing.assert_allclose(got, expected, atol=1e-8)
    slope = (c * (np.log(got / PRIOR) + 1) + got - a)[got > 0]
    assert np.ptp(slope) < 1e-12 * (1 + c)
    assert abs(got.sum() - 1) < 1e-14


@pytest.mark.parametrize("proximal", [proximal_quadratic, proximal_kl])
@pytest.mark.parametrize("a", POINTS)
def test_a_weak_prior_is_the_projection_and_a_strong_one_is_the_prior(proximal, a, double):
    a = jnp.asarray(a)
    np.testing.assert_allclose(proximal(a, 1e-10, PRIOR), project_simplex(a), atol=1e-8)
    np.testing.assert_allclose(proximal(a, 1e10, PRIOR), PRIOR, atol=1e-8)


def test_floored_simplex_is_the_solvers(double):
    for a in POINTS:
        expected = solve(lambda u, a=a: np.sum((u - a) ** 2) / 2, lambda u, a=a: u - a, low=0.05)
        np.testing.assert_allclose(
            project_floored_simplex(jnp.asarray(a), 0.05), expected, atol=1e-8
        )
        np.testing.assert_allclose(
            project_floored_simplex(jnp.asarray(a), 0.0),
            project_simplex(jnp.asarray(a)),
            atol=1e-15,
        )


def by_sorting(v, total):
    """The projection in extended precision."""
    v = v.astype(np.longdouble) - v.max()
    u = np.sort(v)[::-1]
    thresholds = (np.cumsum(u) - total) / np.arange(1, len(v) + 1)
    return np.maximum(v - thresholds[np.flatnonzero(u > thresholds)[-1]], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("total", [1.0, 2.5])
def test_the_projection_is_that_by_sorting_for_ties_and_for_any_scale(dtype, total, double):
    n = 500
    points = [
        *(RNG.normal(0, scale, n) for scale in (1e-4, 1e-2, 1.0, 1e3)),
        *(np.full(n, level) for level in (0.0, -7.0, 0.3)),
        RNG.integers(0, 3, n) / 2,  # ties at the threshold
        np.full(n, 1 / n) + 3 / n * (np.arange(n) % 50 == 0),  # a simplex's point, a few moved
        0.9 ** np.arange(n),
        1e6 + RNG.random(n),
        np.where(np.arange(n) == 7, 5.0, 0.0),
    ]
    points = np.array(points, dtype)
    got = np.asarray(jax.jit(jax.vmap(lambda v: project_simplex(v, total)))(points))
    assert got.dtype == dtype and got.min() >= 0
    expected = np.array([by_sorting(v, total) for v in points], float)
    digits = 16 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, expected, rtol=0, atol=digits * total)
    np.testing.assert_allclose(got.sum(1, dtype=float), total, rtol=digits)
    alone = [np.asarray(project_simplex(v, total)) for v in points[:2]]
    np.testing.assert_allclose(got[:2], alone, rtol=0, atol=digits * total)
    assert project_simplex(points[0][:1], total) == dtype(total)


def test_the_projection_has_derivatives_and_tells_what_is_not_finite(double):
    v, along = RNG.normal(0, 0.5, (2, 6))
    other = optax.projections.projection_simplex
    np.testing.assert_allclose(jax.jacrev(project_simplex)(v), jax.jacrev(other)(v), atol=1e-14)
    np.testing.assert_allclose(jax.jacfwd(project_simplex)(v), jax.jacfwd(other)(v), atol=1e-14)
    slopes = [jax.grad(lambda t, p=p: p(v, t) @ along)(1.0) for p in (project_simplex, other)]
    np.testing.assert_allclose(*slopes, rtol=1e-12)
    for bad in (np.nan, np.inf):
        assert np.isnan(project_simplex(jnp.array([1.0, bad, 2.0]))).any()


def test_wright_omega_is_scipys(double):
    y = np.concatenate([np.linspace(-700, 700, 2001), [0.999, 1.0, 1.001, 1e9]])
    np.testing.assert_allclose(wright_omega(y), wrightomega(y), rtol=1e-14)
