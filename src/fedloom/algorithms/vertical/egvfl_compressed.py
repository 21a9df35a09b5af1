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
from fedloom.protocol import Round, algorithm, ask
from fedloom.types import Array, Tree

_unbiased = Rule(lambda v: isinstance(v, Unbiased), "an unbiased compressor", RandK(25))


@algorithm
class EGVFLCompressed(references.Referenced):
    """Extragradient steps with compressed differences."""

    compressor: Unbiased = param(_unbiased, "the compressor Q")
    refresh: float | None = references.refresh_param()
    reference: str = references.reference_param()
    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()

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
        hub = yield from references.refreshed(self, hub, after, fed, references.toss(key, p))
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

    def _chance(self, like: Array) -> float:
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
