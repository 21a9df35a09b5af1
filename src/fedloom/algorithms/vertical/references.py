"""What the randomised methods share: reference points, from which only differences are sent.

    party     xh_i = tau x_i + (1 - tau) w_i - step (A_i'u + grad r_i(x_i))
    hub       zh = z - step (grad l(z) - y);   yh = tau y + (1 - tau) u + step (sum_i A_i w_i - z)
    ...       some estimate of yh reaches the parties, one of sum_i A_i xh_i the hub
    party     x_i <- tau x_i + (1 - tau) w_i - step (A_i'[yh] + grad r_i(xh_i))
    hub       z <- z - step (grad l(zh) - yh)
              y <- tau y + (1 - tau) u + step ([sum_i A_i xh_i] - zh)
    coin      with probability p = 1 - tau the references move: w_i <- x_i, u <- y, and A_i w_i
              goes up, u goes down, in full

As printed, and proved, the references move to the points from which the iteration started ("old");
to those at which it ends ("new") is what makes p = 1 without compression EGVFL itself. Before the
first iteration there is one exchange in full, which the listings leave out.
"""

from collections.abc import Generator
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.vertical.scaling import Constants, Scale, Scaled, find_scale, given
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, one_of, param, positive
from fedloom.protocol import Ask, Replies, Round, ask
from fedloom.types import Array, Scalar, Tree

DOWN, UP = 0, 1  # the two ways of a message
_chance = Rule(lambda v: positive.holds(v) and v <= 1, "a number > 0 and <= 1", 0.25)


class ReferenceHub(NamedTuple):
    """Slack z, price y, its reference u, the sum of all A_i w_i, and what both ends draw from."""

    slack: Array
    price: Array
    reference: Array
    anchored: Array
    error: Tree  # what compression has left out so far; () where it is not fed back
    scale: Scale
    seed: Array
    iterations: Array  # so far


class ReferenceParty(NamedTuple):
    """A party's share x_i before and after the iteration, its reference w_i, u, and products."""

    share: Array
    before: Array
    half: Array
    reference: Array
    product: Array  # A_i w_i
    price: Array  # u
    pull: Array  # A_i'u
    error: Tree
    scale: Scale
    seed: Array
    iterations: Array


class Start(NamedTuple):
    """The first exchange in full: the price, and the seed of all common draws."""

    price: Array
    seed: Array


class Halves(NamedTuple):
    """The hub's half-iterates, and the point from which its price sets out."""

    slack: Array
    price: Array
    origin: Array


def refresh_param() -> Any:
    """The field for the probability p."""
    return param(
        _chance.or_none("the part of a full vector that an iteration sends"),
        "probability with which references move",
        default=None,
    )


def reference_param() -> Any:
    """The field for where references move to."""
    doc = "where references move to: the points before the iteration, as proved, or after it"
    return param(one_of("old", "new"), doc, default="old")


def halves(hub: ReferenceHub, fed: VerticalFedView, p: Scalar) -> Halves:
    """The hub's first half-step."""
    step, beta = hub.scale
    loss = fed.loss.scaled(beta)
    origin = (1 - p) * hub.price + p * hub.reference
    slack = hub.slack - step * (loss.grad(hub.slack) - hub.price)
    return Halves(slack, origin + step * (hub.anchored - hub.slack), origin)


def whole(
    hub: ReferenceHub, fed: VerticalFedView, half: Halves, products: Array
) -> tuple[Array, Array]:
    """The hub's second half-step, with an estimate of the products: the next slack and price."""
    step, beta = hub.scale
    loss = fed.loss.scaled(beta)
    slack = hub.slack - step * (loss.grad(half.slack) - half.price)
    return slack, half.origin + step * (products - half.slack)


def refreshed(
    method: "Referenced", hub: ReferenceHub, after: ReferenceHub, fed: VerticalFedView, coin: Array
) -> Generator[Ask, Replies, ReferenceHub]:
    """Let the references move if the coin says so."""
    target = hub.price if method.reference == "old" else after.price
    products = yield ask(
        method.refresh_references,
        target,
        to=everyone(fed.n),
        when=coin,
        occasion="with probability refresh",
    )
    return after._replace(
        reference=jnp.where(coin, target, hub.reference),
        anchored=jnp.where(coin, products.sum(), hub.anchored),
        iterations=hub.iterations + 1,
    )


def common_key(state: ReferenceHub | ReferenceParty, way: int) -> Array:
    """The key from which hub and parties draw alike in this iteration."""
    key = jax.random.wrap_key_data(state.seed, impl=draws.IMPL)
    return draws.fold(key, state.iterations, way)


def toss(key: Array, p: Scalar) -> Array:
    """The coin."""
    return jax.random.uniform(key) < p


def half_point(client: ReferenceParty, f: PartyOracle, p: Scalar) -> Array:
    """A party's first half-step."""
    slope = client.pull + f.grad_r(client.share)
    return (1 - p) * client.share + p * client.reference - client.scale.step * slope


def next_share(
    client: ReferenceParty, f: PartyOracle, p: Scalar, half: Array, pull: Array
) -> Array:
    """A party's second half-step, with an estimate of A_i'yh."""
    slope = pull + f.grad_r(half)
    return (1 - p) * client.share + p * client.reference - client.scale.step * slope


def _anchored(client: ReferenceParty, share: Array, price: Array, f: PartyOracle) -> ReferenceParty:
    beta = client.scale.beta
    return client._replace(
        reference=share,
        product=beta * f.forward(share),
        price=price,
        pull=beta * f.adjoint(price),
    )


class Referenced(Scaled):
    """The base of methods that send differences to reference points."""

    feeds_back: ClassVar[bool] = False  # whether what compression leaves out is kept for later
    reference: str  # a field of every method

    def _theory(self, c: Constants, like: Array) -> Array:
        """The step by theory, for messages like this one."""
        raise NotImplementedError

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> ReferenceHub:
        """Zeros."""
        zeros = fed.loss.zeros()
        scale, seed = given(self, zeros.dtype), jnp.zeros(2, jnp.uint32)
        error = zeros if self.feeds_back else ()
        return ReferenceHub(
            zeros, zeros, zeros, zeros, error, scale, seed, jnp.zeros((), jnp.int32)
        )

    def init_client(self, f: PartyOracle, key: Array, /) -> ReferenceParty:
        """Zeros."""
        x, y = f.zeros(), jnp.zeros_like(f.forward(f.zeros()))
        scale, seed = given(self, x.dtype), jnp.zeros(2, jnp.uint32)
        error = y if self.feeds_back else ()
        return ReferenceParty(x, x, x, x, y, y, x, error, scale, seed, jnp.zeros((), jnp.int32))

    def opening(self, hub: ReferenceHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size; then references and products in full, and a seed for both ends."""
        scale = yield from find_scale(self, fed, key, lambda c: self._theory(c, hub.price))
        start = Start(hub.reference, jax.random.key_data(key))
        products = yield ask(self.begin, start, to=everyone(fed.n))
        return hub._replace(scale=scale, anchored=products.sum(), seed=start.seed), ()

    def begin(self, client: ReferenceParty, start: Start, f: PartyOracle, key: Array, /) -> tuple:
        """Take the first price and the seed; answers with the product of the reference."""
        moved = _anchored(client._replace(seed=start.seed), client.share, start.price, f)
        return moved, moved.product

    def refresh_references(
        self, client: ReferenceParty, price: Array, f: PartyOracle, key: Array, /
    ) -> tuple:
        """Move the references; answers with the product of the new one."""
        target = client.before if self.reference == "old" else client.share
        moved = _anchored(client, target, price, f)
        return moved, moved.product

    def model(self, hub: ReferenceHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return hub.slack / hub.scale.beta

    def deployed(self, model: Array, client: ReferenceParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share
