"""Local optimisers: how a client turns gradients into steps.

    w <- w - lr ( what the optimiser makes of the gradients so far + weight_decay w )

A gradient here is the direction in a method's listing, with its corrections and proximal terms;
`clip` shortens it first. Weight decay is decoupled: it does not pass through the optimiser. An
optimiser starts with an empty memory in every round, so clients neither keep nor send it; only
methods that train split networks, whose rounds are of one batch, keep it from round to round.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from fedloom.errors import unwritten
from fedloom.lazy import public
from fedloom.parameters import (
    Rule,
    at_least_zero,
    below_one,
    flag,
    param,
    parametrised,
    positive,
)
from fedloom.types import Array, Scalar, Tree

__all__ = ["SGD", "Adam", "AdamW", "Momentum", "Optimiser", "optimiser_param"]

if TYPE_CHECKING:
    import optax  # elsewhere where it is used: it takes a tenth of a second to load
else:
    __getattr__, __dir__ = public(__name__)


class Optimiser:
    """Base of the optimisers; `rule` is a transformation of gradients by Optax."""

    __parametrised__: ClassVar[bool] = True
    weight_decay: float | None = None
    clip: float | None = None

    def rule(self) -> "optax.GradientTransformation":
        """What becomes of gradients, without the step size."""
        raise unwritten(self, "rule")

    @property
    def plain(self) -> bool:
        """Whether a step is the gradient itself."""
        return isinstance(self, SGD) and self.weight_decay is None and self.clip is None

    def begin(self, w: Array) -> Tree:
        """What it remembers before the first step of a round.

        Args:
            w: The model from which the steps begin.
        """
        return () if self.plain else self._whole().init(w)

    def move(self, w: Array, gradient: Array, memory: Tree, lr: Scalar) -> tuple[Array, Tree]:
        """One step: the model after it, and what is remembered.

        Args:
            w: The model.
            gradient: What the method steps along, at `w`.
            memory: From `begin`, or from the step before.
            lr: The step size.
        """
        if self.plain:
            return w - lr * gradient, memory
        step, memory = self._whole().update(gradient, memory, w)
        return w - lr * step, memory

    def _whole(self) -> "optax.GradientTransformation":
        import optax

        shortened = [] if self.clip is None else [optax.clip_by_global_norm(self.clip)]
        decay = self.weight_decay
        decayed = [] if decay is None else [optax.add_decayed_weights(decay)]
        return optax.chain(*shortened, self.rule(), *decayed)


_an_optimiser = Rule(lambda v: isinstance(v, Optimiser), "an optimiser", None)


def optimiser_param(memory: str = "starts afresh in each round") -> Any:
    """A field for the local optimiser of a method; plain gradient steps by default."""
    return param(_an_optimiser, f"the optimiser of the steps, which {memory}", default=SGD())


def _clip() -> Any:
    return param(
        positive.or_none("never"),
        "largest norm of a gradient; longer ones are shortened to it",
        default=None,
    )


def _weight_decay() -> Any:
    return param(at_least_zero.or_none("none"), "weight decay of the model", default=None)


@parametrised
class SGD(Optimiser):
    """Plain gradient steps."""

    weight_decay: float | None = _weight_decay()
    clip: float | None = _clip()

    def rule(self) -> "optax.GradientTransformation":
        """The gradient itself."""
        import optax

        return optax.identity()


@parametrised
class Momentum(Optimiser):
    """The heavy ball, m <- momentum m + g, or Nesterov's step along g + momentum m."""

    momentum: float = param(
        below_one, "momentum: the part of the last step that is added to the next", default=0.9
    )
    nesterov: bool = param(flag, "whether to take Nesterov's step", default=False)
    weight_decay: float | None = _weight_decay()
    clip: float | None = _clip()

    def rule(self) -> "optax.GradientTransformation":
        """A sum of gradients, of which older ones count less."""
        import optax

        return optax.trace(self.momentum, self.nesterov)


@parametrised
class Adam(Optimiser):
    """Adam: the mean of gradients over the root of the mean of their squares."""

    b1: float = param(below_one, "decay rate of the mean of gradients", default=0.9)
    b2: float = param(below_one, "decay rate of the mean of squares", default=0.999)
    eps: float = param(positive, "added to the square root in the denominator", default=1e-8)
    clip: float | None = _clip()

    def rule(self) -> "optax.GradientTransformation":
        """Both means, corrected for their start from zero."""
        import optax

        return optax.scale_by_adam(self.b1, self.b2, self.eps)


@parametrised
class AdamW(Optimiser):
    """Adam with weight decay."""

    b1: float = param(below_one, "decay rate of the mean of gradients", default=0.9)
    b2: float = param(below_one, "decay rate of the mean of squares", default=0.999)
    eps: float = param(positive, "added to the square root in the denominator", default=1e-8)
    weight_decay: float | None = param(
        at_least_zero.or_none("none"), "weight decay of the model", default=0.01
    )
    clip: float | None = _clip()

    def rule(self) -> "optax.GradientTransformation":
        """Both means, corrected for their start from zero."""
        import optax

        return optax.scale_by_adam(self.b1, self.b2, self.eps)
