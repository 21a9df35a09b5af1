"""EGVFL with biased compression and error feedback: what was left out is added next time.

Beznosikov et al., Algorithm 3: Algorithm 2 (`egvfl_compressed`) with a biased compressor C,

    hub       c = C(yh - u + e),   e <- yh - u + e - c;                 sends c
    party     c_i = C(A_i xh_i - A_i w_i + e_i),   e_i <- (the same) - c_i;   answers c_i

    step = (1/4) min{1, 1/L_r, 1/L_l, sqrt(p / (delta^2 (Lm + n max_i lam_max(A_i A_i'))))}

Differs from the paper: the residuals e stay where they are, though line 7 of the paper sends one,
and one exchange in full comes before the first iteration. Theorem 3.4 also bounds the step by an
omega that biased compressors do not have; it is left out. The step by theory is very small;
experiments tune it.
"""

from typing import ClassVar

import jax.numpy as jnp

from fedloom.algorithms.vertical import references, scaling
from fedloom.algorithms.vertical.references import DOWN, ReferenceHub, ReferenceParty, common_key
from fedloom.algorithms.vertical.scaling import Constants
from fedloom.cohorts import everyone
from fedloom.operators.compressors import Biased, TopK
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array, Scalar, Tree

_biased = Rule(lambda v: isinstance(v, Biased), "a biased compressor", TopK(25))


@algorithm
class EGVFLErrorFeedback(Algorithm):
    """Extragradient steps with compressed differences and their residuals."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    compressor: Biased = param(_biased, "the compressor C")
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
        return references.first_hub(fed, self.step, feeds_back=True)

    def init_client(self, f: PartyOracle, key: Array, /) -> ReferenceParty:
        """A zero share and reference."""
        return references.first_party(f, self.step, feeds_back=True)

    def opening(self, hub: ReferenceHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The step size, where it is left to theory; then the first exchange in full."""
        scale = yield from scaling.find_scale(
            fed, key, lambda c: self._theory(c, hub.price),
            step=self.step, beta_trick=self.beta_trick, eigenvalue=self.eigenvalue,
        )  # fmt: skip
        return (yield from references.first_exchange(hub, scale, fed, key)), ()

    def round(self, hub: ReferenceHub, fed: VerticalFedView, key: Array, /) -> Round:
        """One compressed exchange, and at times one in full."""
        p, restore = self._chance(hub.price), self.compressor.restore
        half = references.halves(hub, fed, p)
        wanted = half.price - hub.reference + hub.error
        message = self.compressor.compress(wanted, common_key(hub, DOWN))
        error = wanted - restore(message, wanted)
        replies = yield ask(self.move, message, to=everyone(fed.n))
        products = hub.anchored + replies.map(lambda part: restore(part, hub.price)).sum()
        slack, price = references.whole(hub, fed, half, products)
        after = hub._replace(slack=slack, price=price, error=error)
        coin = references.toss(key, p)
        hub = yield from references.refreshed(
            self.refresh_references, hub, after, fed, coin, self.reference
        )
        return hub, ()

    def move(self, client: ReferenceParty, message: Tree, f: PartyOracle, key: Array, /) -> tuple:
        """Both half-steps of the party; answers with its compressed difference."""
        p, beta = self._chance(client.price), client.scale.beta
        half = references.half_point(client, f, p)
        price = client.price + self.compressor.restore(message, client.price)
        share = references.next_share(client, f, p, half, beta * f.adjoint(price))
        wanted = beta * f.forward(half) - client.product + client.error
        reply = self.compressor.compress(wanted, key)
        error = wanted - self.compressor.restore(reply, wanted)
        moved = client._replace(
            share=share, before=client.share, error=error, iterations=client.iterations + 1
        )
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

    def _theory(self, c: Constants, like: Array) -> Array:
        """The step of Theorem 3.4."""
        noise = self.compressor.delta(like) ** 2 * (c.joint + c.n * c.largest) / self._chance(like)
        limit = jnp.maximum(jnp.maximum(1, c.ridge), jnp.maximum(c.loss, jnp.sqrt(noise)))
        return 0.25 / limit
