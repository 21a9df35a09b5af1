"""When a client's local saddle is solved: ties and rounding, where all numbers are known."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.algorithms.minimax.point import PrimalDual
from fedloom.algorithms.minimax.resolvent import Resolvent


@pytest.mark.parametrize("concavity", [0.75, 0.5, 3.0])
def test_the_termination_test_holds_with_equality(concavity, double):
    """From w = 3 to 1, where T = (1 - 1/4) w: a quarter is weakly convex, and all is exact."""

    def solved(weak, accuracy):
        problem = SimpleNamespace(weak_convexity=weak, strong_concavity=concavity)
        f = SimpleNamespace(full_grads=lambda w, y: (-weak * w, -concavity * y), problem=problem)
        zero = jnp.zeros(1)
        r = Resolvent(f, PrimalDual(zero, zero), PrimalDual(1.0, 0.0))
        ends = [PrimalDual(jnp.array([w]), zero) for w in (1.0, 3.0)]
        return r.solved(*ends, accuracy)

    least = 0.75**2 / (4 * min(0.75, concavity) ** 2)  # |T|^2 / (m^2 |v - v0|^2)
    assert solved(0.25, least) and not solved(0.25, least * (1 - 1e-15))
    assert not solved(1.5, 1e9)  # no modulus, no promise


@pytest.mark.parametrize("centre", [0.0, 2.0**27])
def test_rounding_of_what_cancels_ends_the_search(centre, double):
    """T = w - x is known to 64 units of the rounding of 1 and |w| + |x|."""
    problem = SimpleNamespace(weak_convexity=0.0, strong_concavity=0.0)
    f = SimpleNamespace(full_grads=lambda w, y: (0 * w, 0 * y), problem=problem)
    x, zero = jnp.array([centre]), jnp.zeros(1)
    r = Resolvent(f, PrimalDual(x, zero), PrimalDual(1.0, 0.0))
    floor = 64 * np.finfo(float).eps * np.hypot(1, 2 * centre)
    for share, expected in ((1, True), (1.01, False)):
        v = PrimalDual(x + share * floor, zero)
        assert r.solved(v, v, 0.5) == expected
