"""The steps that theory gives the vertical methods, against the theorems as printed."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

from fedloom.algorithms import (
    EGVFLAugmented,
    EGVFLCompressed,
    EGVFLCoordinate,
    EGVFLErrorFeedback,
    EGVFLPartial,
)
from fedloom.algorithms.vertical import (
    egvfl,
    egvfl_dual,
    egvfl_proximal,
    egvfl_slacks,
    scaling,
    vertical_gd,
)
from fedloom.operators.compressors import Identity, RandK, TopK
from papers import vertical


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


class Known(NamedTuple):
    """Constants of a problem with three parties, of which some make a bound the tightest."""

    joint: float = 3.0
    largest: float = 2.0
    total: float = 3.7
    loss: float = 0.9
    ridge: float = 0.2


KNOWN = {
    "eigenvalues": Known(),
    "many parties": Known(joint=30.0, largest=11.0, total=33.0),
    "loss": Known(loss=70.0),
    "ridge": Known(ridge=80.0),
    "nothing": Known(1e-6, 1e-6, 1e-6, 1e-6, 1e-6),
}
MESSAGE = np.zeros(8)


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
def test_the_steps_of_theory_are_those_of_the_theorems(known, double):
    """Written out as printed, with K of s = 8 entries, m of n = 3 parties, and p given or K/s."""
    n, p, k = 3, 0.3, 4
    joint, largest, total, loss, ridge = known
    c = scaling.Constants(*map(jax.numpy.asarray, known), n)
    both = {"ridge": ridge, "loss": loss}

    def quarter(*roots, others=()):
        return vertical.saddle_step(1 / 4, *roots, others=others, **both)

    close(vertical_gd.theory(c), 1 / vertical.smoothness(joint, loss, ridge))
    close(egvfl.theory(c), vertical.saddle_step(1 / 2, joint, **both))
    conjugate = vertical.saddle_step(1 / 2, joint, ridge=ridge, loss=1 / loss)
    close(egvfl_dual.theory(c), conjugate)
    close(egvfl_proximal.theory(c), 2**-0.5 * min(1, joint**-0.5))
    close(egvfl_proximal.trick(c), joint**-0.5)
    slacks = vertical.saddle_step(1 / 2, largest, ridge=ridge, loss=n * loss)
    close(egvfl_slacks.theory(c), slacks)
    close(egvfl_slacks.trick(c), (n * loss) ** (1 / 3) / largest ** (1 / 6))
    close(scaling.balanced(c), loss ** (1 / 3) / joint ** (1 / 6))

    def found(method):
        return method._theory(c, MESSAGE)

    omega, delta = 8 / k, 8 / 3
    alike = quarter(omega * joint / p)
    close(found(EGVFLCompressed(RandK(50), refresh=p)), alike)
    apart = quarter(omega * (joint + largest) / p, omega * joint / p)
    close(found(EGVFLCompressed(RandK(50, shared=False), refresh=p)), apart)
    close(found(EGVFLCompressed(RandK(50))), quarter(omega * joint / (k / 8)))
    close(found(EGVFLCompressed(Identity(), refresh=p)), quarter(joint / p))
    fed_back = quarter(delta**2 * (joint + n * largest) / p)
    close(found(EGVFLErrorFeedback(TopK(30), refresh=p)), fed_back)
    places = quarter(delta**2 * (joint + n * largest) / (3 * (8 + 4) / (8 * 8)))
    close(found(EGVFLErrorFeedback(TopK(30))), places)  # an entry takes 8 bytes, its place 4
    close(found(EGVFLPartial(2, refresh=p)), quarter((joint + n / 2 * largest) / p))
    close(found(EGVFLPartial(2)), quarter((joint + n / 2 * largest) / (2 / n)))
    close(found(EGVFLPartial(None)), quarter(joint + largest))
    rows = 100 / 50 * joint / p
    columns = 100 / 40 * total / p
    close(found(EGVFLCoordinate(50, 40, refresh=p)), quarter(rows, columns))
    rows = 100 / 20 * (joint + largest) / 0.3  # p = (20 + 40) / 200
    columns = 100 / 40 * total / 0.3
    close(found(EGVFLCoordinate(20, 40, shared=False)), quarter(rows, columns))
    for rho in (0.05, 0.6, 7.0):
        others = [rho, rho * joint]
        augmented = quarter(joint, rho * joint, others=others)
        close(EGVFLAugmented(rho=rho)._theory(c), augmented)


def test_the_constants_of_the_scaled_problem_are_those_of_its_matrices(double):
    """Eigenvalues of beta A and of its blocks, and the slope of l(z / beta) along z."""

    def constants(data):
        own = [np.linalg.eigvalsh(a.T @ a)[-1] for a in data.blocks]
        joint = np.linalg.eigvalsh(data.whole.T @ data.whole)[-1]
        loss = (data.slope(np.ones(data.s)) - data.slope(np.zeros(data.s))).max()
        return scaling.Constants(joint, max(own), sum(own), loss, data.l2, data.n)

    data = vertical.Columns()
    for beta in (0.6, 1.7):
        close(scaling.scaled(constants(data), beta), constants(data.scaled(beta)))
