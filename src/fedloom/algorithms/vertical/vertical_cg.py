"""Conjugate gradients over columns: ridge regression by one product a round.

Hestenes and Stiefel 1952, section 10 (today's CGLS), for the normal equations of

    min_x  (c/2) |sum_i A_i x_i - b|^2 + sum_i (l2/2) |x_i|^2,     c = 1, or 1/rows with the mean

    opening   hub sends e = c b;                               party s_i = A_i'e,  p_i = 0
    round     hub sends alpha, beta and e = c (b - sum_i A_i x_i) at the next x
    party     p_i <- s_i + beta p_i;    x_i <- x_i + alpha p_i;    s_i <- A_i'e - l2 x_i
              answers A_i s_i, s_i's_i and s_i'p_i
    hub       beta = sum s_i's_i / (sum s_i's_i of before);    A p <- sum A_i s_i + beta A p
              alpha = sum s_i's_i / (c |A p|^2 + l2 |p|^2);    A x <- A x + alpha A p

s is minus the gradient and p the direction. There is no step size to choose and no eigenvalue to
find: a round sends what one of `vertical_gd` does, and two numbers more each way. In exact
arithmetic it ends at the solution after as many rounds as A'A has distinct eigenvalues, and of all
methods that multiply by A and A' once a round none is nearer to it by the objective. The first
message is c b, the labels times a number, as that of `vertical_gd` is for the squared loss.

Differs from the paper: the textbook forms A p from the new direction, for which parties must know
beta, and beta needs the sum of their s_i's_i, so that a round takes two exchanges. Here A p is
carried on by A p = A s + beta A p, and |p|^2 by |s|^2 + 2 beta s'p + beta^2 |p|^2, which takes one
(the rearrangement of Chronopoulos and Gear 1989). Where rounding is all that is left of s it is no
longer orthogonal to p, and what is carried on would be of another direction than the parties take:
beta is then 0 and p begins anew with s. Where s or p is 0, it stays where it is.
"""

from collections.abc import Generator
from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.cohorts import everyone
from fedloom.errors import ParameterError
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.problems.losses import SquaredLoss
from fedloom.protocol import Algorithm, Ask, Replies, Round, algorithm, ask
from fedloom.types import Array

_LOST = 0.1  # the cosine of s and p, which exact arithmetic makes 0, from which p begins anew


class ConjugateHub(NamedTuple):
    """The scores A x, and the step that the next round takes."""

    scores: Array
    product: Array  # A p, of the direction along which it goes
    squares: Array  # s's, of the gradient there
    length: Array  # p'p
    alpha: Array
    beta: Array


class ConjugateParty(NamedTuple):
    """A party's share x_i, minus its gradient s_i, and its part p_i of the direction."""

    share: Array
    downhill: Array
    direction: Array


class Step(NamedTuple):
    """What the hub sends: the step along the next direction, and the errors where it ends."""

    alpha: Array
    beta: Array
    errors: Array


class Products(NamedTuple):
    """What a party answers: A_i s_i, s_i's_i and s_i'p_i."""

    downhill: Array
    squares: Array
    overlap: Array


@algorithm
class VerticalCG(Algorithm):
    """Conjugate gradients: the best point that one product with the columns a round can reach."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> ConjugateHub:
        """The scores of zero shares, and no direction yet."""
        if not isinstance(fed.loss, SquaredLoss):
            name = type(fed.loss).__name__.removesuffix("Loss").lower()
            raise ParameterError(
                f"VerticalCG: loss must be 'squared', for which the solution is that of linear "
                f"equations; got {name!r}. Use loss = 'squared', or VerticalAGD or EGVFL."
            )
        zeros = fed.loss.zeros()
        nothing = jnp.zeros((), zeros.dtype)
        return ConjugateHub(zeros, zeros, nothing, nothing, nothing, nothing)

    def init_client(self, f: PartyOracle, key: Array, /) -> ConjugateParty:
        """A zero share."""
        return ConjugateParty(f.zeros(), f.zeros(), f.zeros())

    def opening(self, hub: ConjugateHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The gradient at zero, which is the first direction."""
        return (yield from self._advance(hub, fed)), ()

    def round(self, hub: ConjugateHub, fed: VerticalFedView, key: Array, /) -> Round:
        """A step along the direction; then the gradient there makes the next one."""
        moved = hub._replace(scores=hub.scores + hub.alpha * hub.product)
        return (yield from self._advance(moved, fed)), ()

    def _advance(
        self, hub: ConjugateHub, fed: VerticalFedView
    ) -> Generator[Ask, Replies, ConjugateHub]:
        """Let the parties follow to the hub's scores, and find the step that comes next."""
        step = Step(hub.alpha, hub.beta, -fed.loss.grad(hub.scores))
        replies: Replies[Products] = yield ask(self.move, step, to=everyone(fed.n))
        downhill, squares, overlap = replies.sum()
        lost = overlap**2 > _LOST**2 * squares * hub.length
        beta = jnp.where(lost, 0, _ratio(squares, hub.squares))
        product = downhill + beta * hub.product
        length = squares + 2 * beta * overlap + beta**2 * hub.length
        curvature = fed.loss.smoothness * (product**2).sum() + fed.problem.l2 * length
        alpha = _ratio(squares, curvature)
        return ConjugateHub(hub.scores, product, squares, length, alpha, beta)

    def move(self, client: ConjugateParty, step: Step, f: PartyOracle, key: Array, /) -> tuple:
        """The step along the next direction, and the gradient where it ends."""
        p = client.downhill + step.beta * client.direction
        x = client.share + step.alpha * p
        s = f.adjoint(step.errors) - f.grad_r(x)
        return ConjugateParty(x, s, p), Products(f.forward(s), (s**2).sum(), (s * p).sum())

    def model(self, hub: ConjugateHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows."""
        return hub.scores

    def deployed(self, model: Array, client: ConjugateParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share


def _ratio(above: Array, below: Array) -> Array:
    """The quotient of two numbers; zero if the second one is zero."""
    return jnp.where(below > 0, above / jnp.where(below > 0, below, 1), 0)
