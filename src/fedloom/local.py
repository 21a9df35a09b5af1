"""What clients of many methods do alike: local steps."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.oracles import RowOracle, SmoothOracle
from fedloom.parameters import Rule, at_least, param, positive
from fedloom.types import Array, Scalar

State = TypeVar("State")


def _epochs(value: object) -> int | None:
    """The 5 of "5 epochs"; None for anything else."""
    words = value.split() if isinstance(value, str) else []
    if len(words) == 2 and words[0].isdigit() and words[1] in ("epoch", "epochs"):
        return int(words[0]) or None
    return None


steps_rule = Rule(
    lambda v: at_least(1).holds(v) or _epochs(v) is not None,
    'a whole number >= 1, or a text such as "5 epochs"',
    10,
)


def accuracy_param() -> Any:
    """The field for when `proximal_point` ends."""
    return param(
        positive.or_none("as many stochastic steps as stated"),
        "norm of the gradient at which the local solver ends, with full gradients",
        default=None,
    )


def steps_of(local_steps: int | str, f: RowOracle) -> Array | int:
    """How many steps a client takes; an epoch is as many as pass over its rows once."""
    epochs = _epochs(local_steps)
    return int(local_steps) if epochs is None else epochs * f.batches


def repeat(
    step: Callable[[State, Array], State], start: State, key: Array, count: Array | int
) -> State:
    """Apply `step(state, key)` `count` times, with a key of its own each time."""
    if isinstance(count, int):
        keys = jax.random.split(key, count)
        return jax.lax.scan(lambda state, k: (step(state, k), None), start, keys)[0]
    # Clients with unequal numbers of steps: the keys of the first steps are the same as above.
    return jax.lax.fori_loop(0, count, lambda i, state: step(state, draws.nth(key, i)), start)


def proximal_point(
    f: SmoothOracle,
    centre: Array,
    step: Scalar,
    start: Array,
    key: Array,
    *,
    lr: Scalar,
    steps: Array | int,
    accuracy: Scalar | None = None,
) -> Array:
    """Nearly argmin_x f(x) + |x - centre|^2 / (2 step), by gradient steps from `start`.

    Without an accuracy, `steps` stochastic gradient steps. With one, full gradient steps until the
    gradient's norm is at most `accuracy`, and `steps` at the most.
    """

    def pull(x: Array) -> Array:
        return (x - centre) / step

    if accuracy is None:
        return repeat(lambda x, k: x - lr * (f.grad(x, k) + pull(x)), start, key, steps)

    def gradient(x: Array) -> Array:
        return f.full_grad(x) + pull(x)

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        _, slope, taken = state
        return (jnp.linalg.norm(slope) > accuracy) & (taken < steps)

    def descend(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, slope, taken = state
        x = x - lr * slope
        return x, gradient(x), taken + 1

    first = (start, gradient(start), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, descend, first)[0]


def projected_steps(
    f: SmoothOracle, start: Array, key: Array, *, lr: Scalar, steps: Array | int
) -> Array:
    """Stochastic gradient steps, each followed by the projection onto the problem's constraint."""
    return repeat(lambda w, k: f.prox(w - lr * f.grad(w, k), lr), start, key, steps)


def projected_steps_keeping(
    f: SmoothOracle, start: Array, key: Array, *, lr: Scalar, steps: int, keep: Array
) -> tuple[Array, Array]:
    """The same steps; returns the model after all of them, and the one after the first `keep`."""

    def step(state: tuple[Array, Array, Array], key: Array) -> tuple[Array, Array, Array]:
        w, kept, taken = state
        w, taken = f.prox(w - lr * f.grad(w, key), lr), taken + 1
        return w, jnp.where(taken == keep, w, kept), taken

    last, kept, _ = repeat(step, (start, start, jnp.zeros((), jnp.int32)), key, steps)
    return last, kept
