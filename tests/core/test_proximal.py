"""Proximal maps and projections: properties that hold for every one, and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedloom.errors import ParameterError
from fedloom.problems import L1, Ball, Box, ElasticNet, GroupL1, NuclearNorm, Simplex

ALL = {
    "l1": L1(0.7),
    "group l1": GroupL1(0.7),
    "group l1 in blocks": GroupL1(0.7, block=2),
    "elastic net": ElasticNet(0.7, 0.4),
    "nuclear norm": NuclearNorm(0.7),
    "box": Box(-0.3, 0.8),
    "ball": Ball(0.9),
    "simplex": Simplex(1.3),
}
SETS = ("box", "ball", "simplex")
MATRICES = hnp.arrays(np.float64, (3, 2), elements=st.floats(-5, 5, width=32))
STEPS = st.floats(0.0625, 4, width=32)


def prox(g, v, step):
    return np.asarray(g.prox_of(jnp.asarray(v), jnp.asarray(step)))


@pytest.mark.parametrize("name", ALL)
@given(u=MATRICES, v=MATRICES, step=STEPS)
@settings(max_examples=40, deadline=None)
def test_firmly_nonexpansive(name, u, v, step):
    with jax.enable_x64(True):
        p, q = prox(ALL[name], u, step), prox(ALL[name], v, step)
    assert np.sum((p - q) ** 2) <= np.sum((p - q) * (u - v)) + 1e-10


@pytest.mark.parametrize("name", ALL)
@given(v=MATRICES, step=STEPS)
@settings(max_examples=40, deadline=None)
def test_moreau_identity_by_the_subgradient(name, v, step):
    """v = p + step * s with s a subgradient at p: g(u) >= g(p) + <s, u - p> for every u.

    That is Moreau's decomposition, v = prox_{t g}(v) + t prox_{g*/t}(v / t), without a formula for
    the conjugate.
    """
    g = ALL[name]
    with jax.enable_x64(True):
        p = prox(g, v, step)
        s = (v - p) / step
        value = float(g.value_of(jnp.asarray(p)))
        assert np.isfinite(value)
        rng = np.random.default_rng(0)
        for u in rng.normal(0, 2, (20, 3, 2)):
            if name in SETS:
                u = np.asarray(g.project(jnp.asarray(u)))
            at_u = float(g.value_of(jnp.asarray(u)))
            assert at_u >= value + np.sum(s * (u - p)) - 1e-9 * (1 + abs(value))


@pytest.mark.parametrize("name", SETS)
@given(v=MATRICES)
@settings(max_examples=40, deadline=None)
def test_projections_land_in_the_set_and_stay(name, v):
    g = ALL[name]
    with jax.enable_x64(True):
        p = np.asarray(g.project(jnp.asarray(v)))
        np.testing.assert_allclose(np.asarray(g.project(jnp.asarray(p))), p, atol=1e-12)
        assert float(g.value_of(jnp.asarray(p))) == 0
        assert float(g.value_of(jnp.asarray(p + 3.0))) == np.inf


GRID = np.linspace(-3, 3, 1201)


@pytest.mark.parametrize("name", ["l1", "elastic net", "box", "ball"])
@pytest.mark.parametrize("v", [-2.2, -0.4, 0.0, 0.9, 2.6])
def test_brute_force_in_one_dimension(name, v, double):
    g, step = ALL[name], 0.8
    values = [float(g.value_of(jnp.array([u]))) + (u - v) ** 2 / (2 * step) for u in GRID[::5]]
    nearest = GRID[::5][int(np.argmin(values))]
    assert abs(prox(g, np.array([v]), step)[0] - nearest) <= 0.02


@pytest.mark.parametrize("name", ["group l1", "simplex", "ball", "nuclear norm"])
@pytest.mark.parametrize("v", [(-1.2, 0.7), (0.3, 0.2), (2.0, 1.5), (0.0, -0.1)])
def test_brute_force_in_two_dimensions(name, v, double):
    """Against a fine grid of points; those of the simplex lie on its segment."""
    g, step, v = ALL[name], 0.8, np.array(v)
    if name == "simplex":
        first = np.linspace(0, 1.3, 400)
        points = np.stack([first, 1.3 - first], axis=1)
    else:
        axis = np.linspace(-2.2, 2.2, 221)
        points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    if name in ("group l1", "nuclear norm"):  # both are the norm of a single row
        penalty = 0.7 * np.linalg.norm(points, axis=1)
    elif name == "ball":
        penalty = np.where(np.linalg.norm(points, axis=1) <= 0.9, 0, np.inf)
    else:
        penalty = np.zeros(len(points))
    values = penalty + ((points - v) ** 2).sum(1) / (2 * step)
    nearest = points[np.argmin(values)]
    np.testing.assert_allclose(prox(g, v[None], step)[0], nearest, atol=0.03)


def test_the_step_is_a_number_at_run_time():
    by_step = jax.jit(lambda v, t: L1(0.5).prox_of(v, t))
    np.testing.assert_allclose(by_step(jnp.array([3.0]), 2.0), [2.0])
    np.testing.assert_allclose(by_step(jnp.array([3.0]), 4.0), [1.0])


def test_the_nuclear_norm_of_a_vector_is_refused():
    with pytest.raises(ParameterError, match="NuclearNorm is for models that are matrices"):
        NuclearNorm(0.7).prox_of(jnp.ones(3), jnp.float32(1))


def test_a_group_that_vanished_has_no_slope():
    rows = jnp.array([[3.0, 4.0], [0.0, 0.0]])  # of norm 5, and at the kink
    slope = GroupL1(0.5).subgradient({"w": rows})["w"]
    np.testing.assert_allclose(slope, [[0.3, 0.4], [0.0, 0.0]], rtol=1e-6)


def test_a_slope_is_zero_on_arrays_that_are_left_alone():
    model = {"scale": jnp.array([2.0, -3.0]), "w": jnp.array([1.0, 0.0, -4.0])}
    slope = L1(0.5, on=("w",)).subgradient(model)
    np.testing.assert_array_equal(slope["w"], [0.5, 0.0, -0.5])
    np.testing.assert_array_equal(slope["scale"], [0.0, 0.0])
