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

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.vertical.scaling import Scale, given
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, one_of, param, positive
from fedloom.protocol import Ask, Replies, ask
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


def first_hub(
    fed: VerticalFedView, step: float | None, *, feeds_back: bool = False
) -> ReferenceHub:
    """Zero points and references; zero errors where they are fed back."""
    zeros, count = fed.loss.zeros(), jnp.zeros((), jnp.int32)
    scale, seed = given(step, zeros.dtype), jnp.zeros(2, jnp.uint32)
    error = zeros if feeds_back else ()
    return ReferenceHub(zeros, zeros, zeros, zeros, error, scale, seed, count)


def first_party(f: PartyOracle, step: float | None, *, feeds_back: bool = False) -> ReferenceParty:
    """A zero share and references; a zero error where it is fed back."""
    x, y = f.zeros(), jnp.zeros_like(f.forward(f.zeros()))
    scale, seed = given(step, x.dtype), jnp.zeros(2, jnp.uint32)
    error = y if feeds_back else ()
    return ReferenceParty(x, x, x, x, y, y, x, error, scale, seed, jnp.zeros((), jnp.int32))


def first_exchange(
    hub: ReferenceHub, scale: Scale, fed: VerticalFedView, key: Array
) -> Generator[Ask, Replies, ReferenceHub]:
    """References and products in full, and a seed for the draws that both ends make alike."""
    start = Start(hub.reference, jax.random.key_data(key))
    products = yield ask(begin, start, to=everyone(fed.n))
    return hub._replace(scale=scale, anchored=products.sum(), seed=start.seed)


def begin(
    party: ReferenceParty, start: Start, f: PartyOracle, key: Array, /
) -> tuple[ReferenceParty, Array]:
    """A party takes the first price and the seed; answers with the product of its reference."""
    moved = _anchored(party._replace(seed=start.seed), party.share, start.price, f)
    return moved, moved.product


def halves(hub: ReferenceHub, fed: VerticalFedView, p: Scalar) -> Halves:
    """The hub's first half-step, to zh and yh."""
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
    move_references: Callable,
    hub: ReferenceHub,
    after: ReferenceHub,
    fed: VerticalFedView,
    coin: Array,
    reference: str,
) -> Generator[Ask, Replies, ReferenceHub]:
    """Let the references of hub and parties move if the coin says so.

    `hub` is the state before the iteration, `after` that with the next slack and price;
    `move_references` is the client method in which a party does its part by `moved_references`.
    """
    target = hub.price if reference == "old" else after.price
    products = yield ask(
        move_references,
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


def moved_references(
    party: ReferenceParty, price: Array, f: PartyOracle, reference: str
) -> tuple[ReferenceParty, Array]:
    """A party with its references at the old or the new points, and the product of its own."""
    moved = _anchored(party, party.before if reference == "old" else party.share, price, f)
    return moved, moved.product


def common_key(state: ReferenceHub | ReferenceParty, way: int) -> Array:
    """The key from which hub and parties draw alike in this iteration."""
    key = jax.random.wrap_key_data(state.seed, impl=draws.IMPL)
    return draws.fold(key, state.iterations, way)


def toss(key: Array, p: Scalar) -> Array:
    """Whether the references move in this iteration: true with probability p."""
    return jax.random.uniform(key) < p


def half_point(client: ReferenceParty, f: PartyOracle, p: Scalar) -> Array:
    """A party's first half-step, to xh_i."""
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
