"""The losses l(z, b) of vertical learning: of the sum of the parties' products z, at the labels b.

Each is a sum over rows times a weight (one, or one over their number), known by its value,
gradient, proximal map and smoothness; the squared one by its conjugate as well. `scaled(beta)` is
the loss l(z / beta), which together with the products times beta poses the same problem.
"""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedloom.errors import ParameterError
from fedloom.operators.omega import wright_omega
from fedloom.types import Array, Held, Scalar

_NEWTON_STEPS = 60


class Loss:
    """A weighted sum over rows of a convex loss of each row's score.

    A subclass defines the plain sum: `of_rows`, `_grad`, `_prox` and `bend`.
    """

    bend: ClassVar[float]  # the Lipschitz constant of the plain sum's gradient

    def __init__(self, labels: Held, classes: int, dtype: DTypeLike, weight: float = 1.0):
        self.labels = jnp.asarray(labels)
        self.classes = classes
        self.dtype = dtype
        self.weight = weight

    def zeros(self) -> Array:
        """Scores of zero, in the shape that this loss takes."""
        return jnp.zeros(self.labels.shape, self.dtype)

    def of_rows(self, z: Array) -> Array:
        """The loss of each row."""
        raise NotImplementedError

    def value(self, z: Array) -> Array:
        """The weighted sum."""
        return self.weight * self.of_rows(z).sum()

    def grad(self, z: Array) -> Array:
        """The gradient in the scores."""
        return self.weight * self._grad(z)

    def prox(self, v: Array, step: Scalar) -> Array:
        """The proximal map of step * l."""
        return self._prox(v, step * self.weight)

    def conjugate_grad(self, y: Array) -> Array:
        """The gradient of `l*(y) = max_z y'z - l(z)`, where `l*` is smooth."""
        return self._conjugate_grad(y / self.weight)

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of the gradient."""
        return self.weight * self.bend

    def _grad(self, z: Array) -> Array:
        raise NotImplementedError

    def _prox(self, v: Array, step: Scalar) -> Array:
        raise NotImplementedError

    def _conjugate_grad(self, y: Array) -> Array:
        name = type(self).__name__.removesuffix("Loss").lower()
        raise ParameterError(
            f"the dual method needs a loss with a smooth conjugate; that of the {name} loss is not."
            f" Use loss = 'squared', or another method."
        )

    def scaled(self, beta: Scalar) -> "ScaledLoss":
        """The loss l(z / beta)."""
        return ScaledLoss(self, beta)


class ScaledLoss:
    """The loss l(z / beta) in terms of l."""

    def __init__(self, loss: Loss, beta: Scalar):
        self.loss, self.beta = loss, beta

    def grad(self, z: Array) -> Array:
        """The gradient."""
        return self.loss.grad(z / self.beta) / self.beta

    def prox(self, v: Array, step: Scalar) -> Array:
        """The proximal map of step times this loss."""
        return self.beta * self.loss.prox(v / self.beta, step / self.beta**2)


class SquaredLoss(Loss):
    """|z - b|^2 / 2."""

    bend: ClassVar[float] = 1.0

    def of_rows(self, z: Array) -> Array:
        """Half the squared error."""
        return 0.5 * (z - self.labels) ** 2

    def _grad(self, z: Array) -> Array:
        """The error."""
        return z - self.labels

    def _prox(self, v: Array, step: Scalar) -> Array:
        """A mean of v and b."""
        return (v + step * self.labels) / (1 + step)

    def _conjugate_grad(self, y: Array) -> Array:
        """Of l*(y) = |y|^2 / 2 + b'y."""
        return y + self.labels


class LogisticLoss(Loss):
    """Sum of log(1 + exp(-b z)) with b = +1 or -1."""

    bend: ClassVar[float] = 0.25

    def of_rows(self, z: Array) -> Array:
        """The loss of each row."""
        return jnp.logaddexp(0, -self.labels * z)

    def _grad(self, z: Array) -> Array:
        """-b / (1 + exp(b z))."""
        return -self.labels * jax.nn.sigmoid(-self.labels * z)

    def _prox(self, v: Array, step: Scalar) -> Array:
        """Row by row the root t of t - b v = step / (1 + exp(t)), with t = b z.

        It lies between b v and b v + step. The left side minus the right is convex below 0 and
        concave above, so Newton's method from the point of the bracket next to 0 never overshoots.
        From 0 it would need log(step) passes to a root above; a short way to the left of that is
        the root with exp(-t) / 2 in the place of 1 / (1 + exp(t)).
        """
        start = self.labels * v
        lower = start + wright_omega(jnp.log(_not_zero(step, v.dtype) / 2) - start)
        first = jnp.where(lower > 0, lower, jnp.clip(0, start, start + step))

        def newton(t: Array) -> Array:
            excess = t - start - step * jax.nn.sigmoid(-t)
            return t - excess / (1 + step * jax.nn.sigmoid(t) * jax.nn.sigmoid(-t))

        return self.labels * _until_settled(newton, first)


class SoftmaxLoss(Loss):
    """Sum of the cross-entropies of the softmax of rows of scores, one score for each class."""

    bend: ClassVar[float] = 0.5

    def zeros(self) -> Array:
        """A matrix: a row of scores for each row of the data."""
        return jnp.zeros((*self.labels.shape, self.classes), self.dtype)

    def of_rows(self, z: Array) -> Array:
        """-log softmax(z)[b]."""
        chosen = jnp.take_along_axis(z, self.labels[:, None], axis=-1)[:, 0]
        return jax.nn.logsumexp(z, axis=-1) - chosen

    def _grad(self, z: Array) -> Array:
        """Softmax(z) minus the label's unit vector."""
        return jax.nn.softmax(z, axis=-1) - self._units()

    def _prox(self, v: Array, step: Scalar) -> Array:
        """Row by row, by the root m of an equation in one unknown.

        With p = softmax(z) and w = step p the minimum has z = v - w; for the label b that is
        z_b = v_b + r with r = step - w_b, the sum of the other w. Each of these others solves
        w + log w = v - m with m = logsumexp(z) - log(step), and r - log(step - r) = m - v_b.

        The sum of all w falls with m and is convex. Left of the root Newton's method does not
        overshoot, and the product of what is left and of the slope falls to a quarter or less each
        time: steps of 1e300 and scores as far apart need no more passes than others.
        """
        step = _not_zero(step, v.dtype)
        label = self._units() > 0
        own = jnp.take_along_axis(v, self.labels[:, None], axis=-1)

        def others(m: Array) -> Array:
            return jnp.where(label, 0, wright_omega(v - m))

        def newton(m: Array) -> Array:
            w, w_own = others(m), wright_omega(own + step - m)
            # If w_b is most of the step, the difference has lost r's digits: once by Newton.
            r = jnp.clip(step - w_own, 0, step / 2)
            r = r - (r - jnp.log(step - r) - (m - own)) / (1 + 1 / (step - r))
            r = jnp.where(w_own > step / 2, r, step - w_own)
            slope = (w / (1 + w)).sum(-1, keepdims=True) + w_own / (1 + w_own)
            return m + (w.sum(-1, keepdims=True) - r) / slope

        # Where one w alone would be the whole step, their sum is at least as much.
        alone = jnp.where(label, v, v - step).max(-1, keepdims=True)
        w = others(_until_settled(newton, alone - jnp.log(step)))
        return v - w + jnp.where(label, w.sum(-1, keepdims=True), 0)

    def _units(self) -> Array:
        return jax.nn.one_hot(self.labels, self.classes, dtype=self.dtype)


def _not_zero(step: Scalar, dtype: DTypeLike) -> Array:
    """A step that has a logarithm and a quotient; so short a one moves nothing."""
    return jnp.maximum(jnp.asarray(step, dtype), 8 * jnp.finfo(dtype).tiny)


def _until_settled(improve: Callable[[Array], Array], start: Array) -> Array:
    """Apply `improve` until nothing moves by more than rounding."""
    tolerance = 4 * jnp.finfo(start.dtype).eps

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        current, moved, taken = state
        return (moved > tolerance * (1 + jnp.abs(current))).any() & (taken < _NEWTON_STEPS)

    def go(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        current, _, taken = state
        after = improve(current)
        return after, jnp.abs(after - current), taken + 1

    infinite = jnp.full_like(start, jnp.inf)
    return jax.lax.while_loop(unfinished, go, (start, infinite, jnp.zeros((), int)))[0]


LOSSES: dict[str, type[Loss]] = {
    "squared": SquaredLoss,
    "logistic": LogisticLoss,
    "softmax": SoftmaxLoss,
}
