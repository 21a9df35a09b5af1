"""The proximal maps of the logistic and the softmax loss, at any step and scores however far apart.

Against solutions in decimal numbers of many digits: between two points that are shown to be on
either side of the only root there is.
"""

from decimal import Context, Decimal, localcontext

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import wrightomega

from fedloom.operators.omega import wright_omega
from fedloom.problems.losses import LogisticLoss, SoftmaxLoss
from tiers import thorough

SCALES = (1e-3, 1.0, 1e3, 1e9)  # of scores
KINDS = ("float32", "float64")
CASES = [(kind, step) for kind in KINDS for step in (1e-8, 0.3, 30, 1e3, 1e5, 1e6)]
CASES += [("float32", 1e37), ("float64", 1e9), ("float64", 1e15), ("float64", 1e60)]
CASES += [pytest.param("float64", 1e300, marks=thorough)]


def root(falling, guess):
    """Where a falling function is zero, to 20 digits after the point."""
    width = Decimal("1e-6")
    while falling(guess - width) < 0 or falling(guess + width) > 0:
        width *= 1000
    low, high = guess - width, guess + width
    while high - low > Decimal("1e-20"):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low


def omega(x):
    """The w with w + log w = x: y = log w from the right, where Newton's method only falls."""
    y, before = x.ln() if x > 1 else x, None
    while before is None or y < before:
        before, y = y, y - (y.exp() + y - x) / (y.exp() + 1)
    return y.exp()


def exact_softmax(v, label, step, found):
    """All z with z + step softmax(z) = v + step e_label, by the logarithm of the softmax's sum."""
    step = Decimal(step)
    moved = [Decimal(x) + (step if i == label else 0) for i, x in enumerate(v)]
    top = Decimal(max(found))
    guess = top + sum((Decimal(z) - top).exp() for z in found).ln() - step.ln()
    at = root(lambda m: sum(omega(x - m) for x in moved) - step, guess)
    return [float(x - omega(x - at)) for x in moved]


def exact_logistic(v, label, step, found):
    """The z with z - v = step b / (1 + exp(b z))."""
    start, step, b = Decimal(v) * int(label), Decimal(step), int(label)
    at = root(lambda t: start + step / (1 + t.exp()) - t, Decimal(found) * b)
    return float(at) * b


def many_digits(step):
    """As many as the step has before the point, and some after it."""
    return localcontext(
        Context(prec=int(abs(np.log10(step))) + 40, traps=[])
    )  # exp(1e9) is infinite


def scores(kind, scale, shape):
    return (scale * np.random.default_rng(0).normal(size=shape)).astype(kind)


def assert_near(found, expected, v):
    """To a few units in the last place of the largest number of the row."""
    size = 1 + np.abs(v).max() + np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * np.finfo(v.dtype).eps * size)


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_softmax(kind, step, double):
    step = float(np.dtype(kind).type(step))
    for scale in SCALES:
        v, labels = scores(kind, scale, (3, 4)), np.array([0, 1, 3])
        v[1, 1] -= 3 * scale  # the least likely of all
        z = np.asarray(SoftmaxLoss(labels, 4, kind).prox(jnp.asarray(v), step))
        with many_digits(step):
            for row, label, found in zip(v, labels, z, strict=True):
                exact = exact_softmax(row.tolist(), label, step, found.tolist())
                assert_near(found, exact, row)


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_logistic(kind, step, double):
    step = float(np.dtype(kind).type(step))
    for scale in (*SCALES, min(step, 1e37)):
        v, labels = scores(kind, scale, 8), np.array([1, -1] * 4, kind)
        z = np.asarray(LogisticLoss(labels, 2, kind).prox(jnp.asarray(v), step))
        with many_digits(step):
            for start, label, found in zip(v, labels, z, strict=True):
                exact = exact_logistic(start.item(), label, step, found.item())
                assert_near(found, exact, start)


@pytest.mark.parametrize("loss", [LogisticLoss, SoftmaxLoss])
def test_a_row_settles_by_its_own_scale(loss, double):
    """Scores of 1e12 in another row are no reason to end early."""
    v = jnp.array([[1e12, -1e12], [0.3, -0.2]])
    v, labels = (v, np.array([0, 1])) if loss is SoftmaxLoss else (v[:, 0], np.array([1.0, -1.0]))
    together = loss(labels, 2, "float64").prox(v, 1e3)
    alone = loss(labels[1:], 2, "float64").prox(v[1:], 1e3)
    np.testing.assert_allclose(together[1:], alone, rtol=1e-14)


@pytest.mark.parametrize("loss", [LogisticLoss, SoftmaxLoss])
def test_a_step_of_zero_stays(loss, double):
    v = jnp.array([[0.3, -1e300], [1e3, 2]])
    v, labels = (v, np.array([0, 1])) if loss is SoftmaxLoss else (v[:, 0], np.array([1.0, -1.0]))
    np.testing.assert_array_equal(loss(labels, 2, "float64").prox(v, 0.0), v)


@pytest.mark.parametrize("kind", KINDS)
def test_omega_is_scipys(kind, double):
    x = np.concatenate([np.linspace(-90, 90, 9001), np.logspace(2, 37, 99), [-1e30, -700]])
    x = x.astype(kind)
    expected = wrightomega(x.astype(float))
    rounding = np.finfo(kind).eps * (8 + np.abs(np.minimum(x, 0)))  # of exp(x), where x < 0
    error = np.abs(np.asarray(wright_omega(jnp.asarray(x)), float) - expected)
    assert (error <= rounding * expected + np.finfo(kind).tiny).all()
