"""Step sizes of the vertical methods: by theory, from eigenvalues that nobody has to pool.

Lm = lam_max(A'A) of all columns together is found by Lanczos' form of the power iteration: the hub
sends a vector of one number a row, each party answers with A_i A_i'u, and the sum is A A'u. Or it
is bounded by the sum of the parties' own eigenvalues (Lemma D.13), which takes a number from each.

The beta-trick replaces A by beta A and l(z) by l(z / beta): the same problem, for which
beta = L_l^(1/3) / Lm^(1/6) makes the smoothness of both halves equal and the step larger.

A method that uses this has the fields `step`, `beta_trick` and `eigenvalue` as far as it needs
them, keeps a `Scale` in the states of hub and parties, and lets its parties answer the opening:

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import flag, one_of, param, positive
from fedloom.protocol import Ask, Replies, ask
from fedloom.types import Array, Scalar

EXCHANGES = 12  # of the power iteration; the largest eigenvalue is then exact to several digits


class Scale(NamedTuple):
    """The step size and the beta of the beta-trick; 1 without it."""

    step: Array
    beta: Array


class Constants(NamedTuple):
    """What theory knows of the scaled problem."""

    joint: Array  # Lm = lam_max(A'A)
    largest: Array  # max_i lam_max(A_i'A_i)
    total: Array  # sum_i lam_max(A_i'A_i)
    loss: Array  # L_l
    ridge: Scalar  # L_r
    n: int  # parties


Theory = Callable[[Constants], Array]


def step_param() -> Any:
    """The field for the step size."""
    return param(
        positive.or_none("by theory, from eigenvalues found in the opening"),
        "step size of hub and parties",
        default=None,
    )


def beta_param() -> Any:
    """The field for the beta-trick."""
    return param(flag, "whether products are scaled so that steps may be longer", default=False)


def eigenvalue_param() -> Any:
    """The field for how lam_max(A'A) is found."""
    return param(
        one_of("power", "bound"),
        f"how theory gets lam_max(A'A): {EXCHANGES} exchanges, or the bound of Lemma D.13 in one",
        default="power",
    )


def given(step: float | None, dtype: Any) -> Scale:
    """The scale before the opening: the user's own step, or 0 where theory shall find one."""
    return Scale(jnp.asarray(0.0 if step is None else step, dtype), jnp.ones((), dtype))


def balanced(constants: Constants) -> Array:
    """The beta that equalises L_l / beta^2 and beta sqrt(Lm)."""
    return jnp.cbrt(constants.loss) / constants.joint ** (1 / 6)


def find_scale(
    fed: VerticalFedView,
    key: Array,
    theory: Theory,
    *,
    step: float | None,
    beta_trick: bool = False,
    eigenvalue: str = "power",
    trick: Theory = balanced,
) -> Generator[Ask, Replies, Scale]:
    """The scale that hub and parties shall use; asks for nothing where the user's step is enough.

    `theory` gives the step for the constants of the scaled problem, `trick` the beta.
    """
    dtype = fed.spec.dtype
    if step is not None and not beta_trick:
        return given(step, dtype)
    constants = yield from find_constants(fed, key, eigenvalue)
    beta = trick(constants) if beta_trick else jnp.ones((), dtype)
    found = theory(scaled(constants, beta)) if step is None else step
    scale = Scale(jnp.asarray(found, dtype), jnp.asarray(beta, dtype))
    yield ask(settle, scale, to=everyone(fed.n))
    return scale


def scaled(constants: Constants, beta: Array) -> Constants:
    """The constants of the problem with beta A and l(z / beta)."""
    joint, largest, total, loss, ridge, n = constants
    square = beta**2
    return Constants(square * joint, square * largest, square * total, loss / square, ridge, n)


def find_constants(
    fed: VerticalFedView, key: Array, eigenvalue: str
) -> Generator[Ask, Replies, Constants]:
    """The constants of the problem as it stands; `eigenvalue` says how lam_max(A'A) is found."""
    own = yield ask(gauge, (), to=everyone(fed.n))
    joint = total = own.sum()
    if eigenvalue == "power":
        joint = yield from _largest_eigenvalue(fed, key)
    smoothness = jnp.asarray(fed.loss.smoothness, fed.spec.dtype)
    return Constants(joint, own.value.max(), total, smoothness, fed.problem.l2, fed.n)


def _largest_eigenvalue(fed: VerticalFedView, key: Array) -> Generator[Ask, Replies, Array]:
    """Lanczos' method on A A', with all vectors kept orthogonal."""
    rows = fed.labels.shape[0]
    u = jax.random.normal(key, (rows,), fed.spec.dtype)
    basis: list[Array] = []
    images: list[Array] = []
    for _ in range(min(EXCHANGES, rows)):
        norm = jnp.linalg.norm(u)
        basis.append(u / jnp.where(norm > 0, norm, 1))
        products = yield ask(correlate, basis[-1], to=everyone(fed.n))
        images.append(products.sum())
        u = images[-1]
        for _ in range(2):  # twice is enough
            known = jnp.stack(basis)
            u = u - known.T @ (known @ u)
    projected = jnp.stack(basis) @ jnp.stack(images).T
    values = jnp.linalg.eigvalsh((projected + projected.T) / 2)
    return values[-1]


def gauge(party: Any, nothing: tuple, f: PartyOracle, key: Array, /) -> tuple[Any, Array]:
    """A party answers with lam_max(A_i'A_i), which it finds by itself."""
    return party, f.largest_eigenvalue(key)


def correlate(party: Any, u: Array, f: PartyOracle, key: Array, /) -> tuple[Any, Array]:
    """A party answers with A_i A_i'u, its part of a step of the power iteration."""
    return party, f.block.forward(f.block.adjoint(u))


def settle(party: Any, scale: Scale, f: PartyOracle, key: Array, /) -> tuple[Any, tuple]:
    """A party keeps the scale that the hub found."""
    return party._replace(scale=scale), ()
