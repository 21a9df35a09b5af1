"""Local steps: loops that many methods run at their clients."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.lazy import public
from fedloom.optimisers import SGD, Optimiser
from fedloom.oracles import RowOracle, SmoothOracle
from fedloom.parameters import Rule, at_least, param, positive
from fedloom.types import Array, Scalar, Tree

__all__ = ["accuracy_param", "descend", "descend_with_mean", "projected_steps"]
__all__ += ["projected_steps_keeping", "proximal_point", "repeat", "steps_of", "steps_rule"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


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
    """A field for the `accuracy` of `proximal_point`; None by default."""
    return param(
        positive.or_none("as many stochastic steps as stated"),
        "norm of the gradient at which the local solver ends, with full gradients",
        default=None,
    )


def steps_of(local_steps: int | str, f: RowOracle) -> Array | int:
    """How many local steps a client takes; an epoch is as many as pass over its rows once.

    Args:
        local_steps: A number, or a text such as "5 epochs", as `steps_rule` allows.
        f: The client's oracle, which knows how many batches its rows make.
    """
    epochs = _epochs(local_steps)
    return int(local_steps) if epochs is None else epochs * f.batches


def repeat(
    step: Callable[[State, Array], State], start: State, key: Array, count: Array | int
) -> State:
    """Apply `step(state, key)` again and again, with a new random key each time.

    Args:
        step: From a state (an array, or a tuple of arrays) and a key to the next state.
        start: The first state.
        key: From which the keys of the steps are made.
        count: How many steps; from `steps_of` where clients may differ in this.
    """
    if isinstance(count, int):
        keys = jax.random.split(key, count)
        return jax.lax.scan(lambda state, k: (step(state, k), None), start, keys)[0]
    # Clients with unequal numbers of steps: the keys of the first steps are the same as above.
    return jax.lax.fori_loop(0, count, lambda i, state: step(state, draws.nth(key, i)), start)


def descend(
    gradient: Callable[[Array, Array], Array],
    start: Array,
    key: Array,
    *,
    lr: Scalar,
    steps: Array | int,
    optimiser: Optimiser,
) -> Array:
    """Take steps along `gradient(w, key)`, or along what an optimiser makes of it.

    Args:
        gradient: From a model and a key to what a step goes along, such as `f.grad`.
        start: The first model.
        key: The random key of the exchange.
        lr: The step size.
        steps: How many steps; from `steps_of` where clients may differ in this.
        optimiser: From `fl.optimisers`; it begins anew with every call.
    """

    def step(state: tuple[Array, Tree], key: Array) -> tuple[Array, Tree]:
        w, memory = state
        return optimiser.move(w, gradient(w, key), memory, lr)

    return repeat(step, (start, optimiser.begin(start)), key, steps)[0]


def descend_with_mean(
    gradient: Callable[[Array, Array], Array],
    start: Array,
    key: Array,
    *,
    lr: Scalar,
    steps: Array | int,
    optimiser: Optimiser,
) -> tuple[Array, Array]:
    """Take the steps of `descend`; return the last model, and the mean of the gradients on the way.

    Args:
        gradient: From a model and a key to what a step goes along.
        start: The first model.
        key: The random key of the exchange.
        lr: The step size.
        steps: How many steps.
        optimiser: From `fl.optimisers`.
    """
    if optimiser.plain:  # the way says it
        last = descend(gradient, start, key, lr=lr, steps=steps, optimiser=optimiser)
        return last, (start - last) / (steps * lr)

    def step(state: tuple[Array, Tree, Array], key: Array) -> tuple[Array, Tree, Array]:
        w, memory, total = state
        slope = gradient(w, key)
        return *optimiser.move(w, slope, memory, lr), total + slope

    first = (start, optimiser.begin(start), jnp.zeros_like(start))
    last, _, total = repeat(step, first, key, steps)
    return last, total / steps


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
    """Approximate argmin_x f(x) + |x - centre|^2 / (2 step) by gradient steps.

    Args:
        f: The client's oracle.
        centre: Where the quadratic term is zero.
        step: The step of the proximal map: the larger it is, the less that term counts.
        start: The first x.
        key: The random key of the exchange.
        lr: The step size of the gradient steps.
        steps: How many stochastic gradient steps; with an `accuracy`, how many full ones at most.
        accuracy: Norm of the gradient at which full gradient steps end; None: stochastic steps.
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


_PLAIN = SGD()


def projected_steps(
    f: SmoothOracle,
    start: Array,
    key: Array,
    *,
    lr: Scalar,
    steps: Array | int,
    optimiser: Optimiser = _PLAIN,
) -> Array:
    """Take stochastic gradient steps, each followed by the proximal map of the problem's g.

    For a constraint that map is the projection onto it.

    Args:
        f: The client's oracle.
        start: The first model.
        key: The random key of the exchange.
        lr: The step size.
        steps: How many steps.
        optimiser: From `fl.optimisers`; with another than the plain one, g must be a constraint.
    """

    def step(state: tuple[Array, Tree], key: Array) -> tuple[Array, Tree]:
        w, memory = state
        w, memory = optimiser.move(w, f.grad(w, key), memory, lr)
        return f.prox(w, lr), memory

    return repeat(step, (start, optimiser.begin(start)), key, steps)[0]


def projected_steps_keeping(
    f: SmoothOracle,
    start: Array,
    key: Array,
    *,
    lr: Scalar,
    steps: int,
    keep: Array,
    optimiser: Optimiser = _PLAIN,
) -> tuple[Array, Array]:
    """Take the steps of `projected_steps`; return the last model, and that after `keep` of them.

    Args:
        f: The client's oracle.
        start: The first model.
        key: The random key of the exchange.
        lr: The step size.
        steps: How many steps.
        keep: After how many of them a model is kept as well; may be random.
        optimiser: From `fl.optimisers`; with another than the plain one, g must be a constraint.
    """
    State = tuple[Array, Tree, Array, Array]

    def step(state: State, key: Array) -> State:
        w, memory, kept, taken = state
        w, memory = optimiser.move(w, f.grad(w, key), memory, lr)
        w, taken = f.prox(w, lr), taken + 1
        return w, memory, jnp.where(taken == keep, w, kept), taken

    first = (start, optimiser.begin(start), start, jnp.zeros((), jnp.int32))
    last, _, kept, _ = repeat(step, first, key, steps)
    return last, kept
