"""Proximal maps and projections: properties that hold for every one, and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedloom.errors import ParameterError
from fedloom.operators.proximal import project_simplex
from fedloom.problems import L1, Ball, Box, ElasticNet, GroupL1, NuclearNorm, Simplex, Sum, Zero

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
    with pytest.raises(ParameterError, match="NuclearNorm is for models that are matrices"):
        NuclearNorm(0.7).subgradient(jnp.ones(3))


def test_a_group_that_vanished_has_no_slope():
    rows = jnp.array([[3.0, 4.0], [0.0, 0.0]])  # of norm 5, and at the kink
    slope = GroupL1(0.5).subgradient({"w": rows})["w"]
    np.testing.assert_allclose(slope, [[0.3, 0.4], [0.0, 0.0]], rtol=1e-6)


def test_a_slope_is_zero_on_arrays_that_are_left_alone():
    model = {"scale": jnp.array([2.0, -3.0]), "w": jnp.array([1.0, 0.0, -4.0])}
    slope = L1(0.5, on=("w",)).subgradient(model)
    np.testing.assert_array_equal(slope["w"], [0.5, 0.0, -0.5])
    np.testing.assert_array_equal(slope["scale"], [0.0, 0.0])


MODEL = {"weights": jnp.array([3.0, -0.05, 1.0]), "bias": jnp.array(2.0)}


def test_parts_of_a_sum_on_the_same_array_are_refused():
    """One map after the other is not the map of the sum: of 3 this would make 0.9, and not 1."""
    together = Sum((Box(-1, 1), L1(0.1)))
    with pytest.raises(ParameterError, match=r"Sum: parts must .* got Box and L1 on 'weights'"):
        together.prox(MODEL, 1.0)
    with pytest.raises(ParameterError, match="L1 and L1 on the model's only array"):
        Sum((L1(0.1), L1(0.2))).prox(jnp.ones(3), 1.0)
    with pytest.raises(ParameterError, match="L1 and Sum on 'bias'"):
        Sum((L1(0.1, on=("bias",)), Sum((Zero(), Box(0, 1, on=("bias",)))))).prox(MODEL, 1.0)
    with pytest.raises(ParameterError, match=r"on 'layers\.1\.w'"):
        Sum((L1(0.1), Box(0, 1))).prox({"layers": [{"bias": jnp.ones(2)}, {"w": jnp.ones(2)}]}, 1.0)
    apart = Sum((Zero(), Box(-1, 1, on=("bias",)), L1(0.1)))
    np.testing.assert_allclose(apart.prox(MODEL, 1.0)["weights"], [2.9, 0, 0.9], rtol=1e-6)
    np.testing.assert_allclose(apart.prox(MODEL, 1.0)["bias"], 1)
    np.testing.assert_allclose(Sum((L1(1.0), L1(2.0))).value(jnp.ones(3)), 9)  # of any parts


@pytest.mark.parametrize("parts", [(), L1(0.1), (L1(0.1), 2)])
def test_a_sum_is_of_regularisers(parts):
    with pytest.raises(ParameterError, match="Sum: parts must be a list of regularisers"):
        Sum(parts)


@pytest.mark.parametrize("on", ["weights", (), 3, (1,)])
def test_arrays_are_named_in_a_list(on):
    with pytest.raises(ParameterError, match="L1: on must be a list of names, or none"):
        L1(0.1, on=on)


def test_names_of_arrays_that_there_are_not_are_refused():
    for act in (L1.value, L1.subgradient, lambda g, model: g.prox(model, 1.0)):
        with pytest.raises(ParameterError, match=r"got 'weight'\. Choose among 'bias', 'weights'"):
            act(L1(0.1, on=("bias", "weight")), MODEL)
        with pytest.raises(ParameterError, match=r"got 'weights'\. It is one array without a name"):
            act(L1(0.1, on=("weights",)), jnp.ones(3))


def test_a_box_has_two_bounds_in_order():
    for low, high in ((1, -1), (np.float32(1), np.float32(-1))):
        with pytest.raises(ParameterError, match="Box: high must be at least low = "):
            Box(low, high)
    for wrong in (np.nan, "1", None, True, np.zeros(3)):
        with pytest.raises(ParameterError, match="Box: low must be a number, or an infinity"):
            Box(wrong, 1)
    np.testing.assert_array_equal(Box(0, np.inf).project(jnp.array([-1.0, 9.0])), [0, 9])
    np.testing.assert_array_equal(Box(2, 2).project(jnp.array([-1.0, 9.0])), [2, 2])


def test_blocks_divide_an_array():
    for act in (GroupL1.value, GroupL1.subgradient, lambda g, model: g.prox(model, 1.0)):
        with pytest.raises(ParameterError, match=r"GroupL1: block must divide .* shape \(3,\)"):
            act(GroupL1(0.1, block=2), MODEL)
    np.testing.assert_array_equal(GroupL1(0.5).prox_of(jnp.array(2.0), jnp.array(1.0)), 1.5)
    assert GroupL1(0.5).prox_of(jnp.zeros((2, 0)), jnp.array(1.0)).shape == (2, 0)


def test_whole_numbers_are_projected_as_real_ones():
    np.testing.assert_allclose(project_simplex(jnp.array([2, 1, 0]), 1.5), [1.25, 0.25, 0])
