"""What a vertical method may ask of the loss of the scores, at the label party."""

from typing import Protocol

from fedloom.types import Array, Scalar


class ScaledLoss(Protocol):
    """The loss l(z / beta), at the labels, of the scores z = sum_i A_i x_i."""

    def grad(self, z: Array) -> Array:
        """The gradient at z."""

    def prox(self, v: Array, step: Scalar) -> Array:
        """argmin_z  step l(z / beta) + |z - v|^2 / 2."""


class ScoreLoss(ScaledLoss, Protocol):
    """The loss l(z) itself, with beta = 1."""

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of the gradient."""

    def zeros(self) -> Array:
        """Scores of zero, in the shape that l takes."""

    def value(self, z: Array) -> Array:
        """l(z)."""

    def conjugate_grad(self, y: Array) -> Array:
        """The gradient of `l*(y) = max_z y'z - l(z)`, where `l*` is smooth."""

    def scaled(self, beta: Scalar) -> ScaledLoss:
        """The loss l(z / beta)."""
