"""EGVFL with unbiased compression: differences to reference points, compressed both ways.

Beznosikov et al., Algorithm 2. The common part is in `references`; here

    hub       sends Q(yh - u), one realisation for all;     party i answers Q(A_i xh_i - A_i w_i)
    party     [yh] = u + Q(yh - u)
    hub       [sum_i A_i xh_i] = sum_i (A_i w_i + Q(A_i xh_i - A_i w_i))

    step = (1/4) min{1, 1/L_r, 1/L_l, sqrt(p / (omega (Lm + own))), sqrt(p / (omega Lm))},
    own = max_i lam_max(A_i A_i') where parties draw apart, 0 where they draw alike

p defaults to the part of a full vector that a compressed one takes. The proof needs p <= 1/2. With
a shared seed, indices cost nothing: both ends fold the iteration into a seed that the opening sent.

Differs from the paper: one exchange in full comes before the first iteration, without which the
references are unknown; and references may move to the newer points.
"""

from typing import ClassVar

import jax.numpy as jnp

from fedloom.algorithms.vertical import references, scaling
from fedloom.algorithms.vertical.references import (
    DOWN,
    UP,
    ReferenceHub,
    ReferenceParty,
    common_key,
)
from fedloom.algorithms.vertical.scaling import Constants
from fedloom.cohorts import everyone
from fedloom.operators.compressors import RandK, Unbiased
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Scalar, Tree

_unbiased = Rule(lambda v: isinstance(v, Unbiased), "an unbiased compressor", RandK(25))


@algorithm
class EGVFLCompressed(Algorithm):
    """Extragradient steps with compressed differences."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    compressor: Unbiased = param(_unbiased, "the compressor Q")
    refresh: float | None = references.refresh_param()
    reference: str = references.reference_param()
    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)
    settle = staticmethod(scaling.settle)
    begin = staticmethod(references.begin)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> ReferenceHub:
        """Zero slack, price and reference."""
        return references.first_hub(fed, self.step)

    def init_client(self, f: PartyOracle, key: Array, /) -> ReferenceParty:
        """A zero share and reference."""
        return references.first_party(f, self.step)

    def opening(self, hub: ReferenceHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory; then the first exchange in full."""
        scale = yield from scaling.find_scale(
            fed, key, lambda c: self._theory(c, hub.price),
            step=self.step, beta_trick=self.beta_trick, eigenvalue=self.eigenvalue,
        )  # fmt: skip
        return (yield from references.first_exchange(hub, scale, fed, key)), ()

    def round(self, hub: ReferenceHub, fed: VerticalFedView, key: Array, /) -> Round:
        """One compressed exchange, and at times one in full."""
        p = self._chance(hub.price)
        half = references.halves(hub, fed, p)
        down, up = common_key(hub, DOWN), common_key(hub, UP)
        message = self._pack(half.price, hub.reference, down)
        replies = yield ask(self.move, message, to=everyone(fed.n))
        total = replies.map(lambda part: self.compressor.restore(part, hub.price, up)).sum()
        total = total if self.compressor.exact else hub.anchored + total
        slack, price = references.whole(hub, fed, half, total)
        after = hub._replace(slack=slack, price=price)
        coin = references.toss(key, p)
        hub = yield from references.refreshed(
            self.refresh_references, hub, after, fed, coin, self.reference
        )
        return hub, ()

    def move(self, client: ReferenceParty, message: Tree, f: PartyOracle, key: Array, /) -> tuple:
        """Both half-steps of the party; answers with its compressed difference."""
        p, beta = self._chance(client.price), client.scale.beta
        half = references.half_point(client, f, p)
        price = self._unpack(message, client.price, common_key(client, DOWN))
        share = references.next_share(client, f, p, half, beta * f.adjoint(price))
        own = common_key(client, UP) if self.compressor.shared else key
        reply = self._pack(beta * f.forward(half), client.product, own)
        moved = client._replace(share=share, before=client.share, iterations=client.iterations + 1)
        return moved, reply

    def refresh_references(
        self, client: ReferenceParty, price: Array, f: PartyOracle, key: Array, /
    ) -> tuple[ReferenceParty, Array]:
        """Move the references; answers with the product of the party's new one."""
        return references.moved_references(client, price, f, self.reference)

    def model(self, hub: ReferenceHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack."""
        return hub.slack / hub.scale.beta

    def deployed(self, model: Array, client: ReferenceParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share

    def _chance(self, like: Array) -> Scalar:
        return self.compressor.portion(like) if self.refresh is None else self.refresh

    def _pack(self, value: Array, reference: Array, key: Array) -> Tree:
        """The difference to the reference, compressed; the value itself where nothing is lost."""
        exact = self.compressor.exact
        return self.compressor.compress(value if exact else value - reference, key)

    def _unpack(self, message: Tree, reference: Array, key: Array) -> Array:
        part = self.compressor.restore(message, reference, key)
        return part if self.compressor.exact else reference + part

    def _theory(self, c: Constants, like: Array) -> Array:
        """The step of Theorem 3.2."""
        own = 0.0 if self.compressor.shared or self.compressor.exact else c.largest
        noise = self.compressor.omega(like) * (c.joint + own) / self._chance(like)
        limit = jnp.maximum(jnp.maximum(1, c.ridge), jnp.maximum(c.loss, jnp.sqrt(noise)))
        return 0.25 / limit
