"""EGVFL with partial participation: all parties move, a few of them answer.

Beznosikov et al., Algorithm 4. The common part is in `references`; here

    hub       sends yh to all, in full;   m of n parties S, at random, answer A_i(xh_i - w_i)
    hub       [sum_i A_i xh_i] = sum_i A_i w_i + (n/m) sum_S A_i(xh_i - w_i)

    step = (1/4) min{1, 1/L_r, 1/L_l, sqrt(p / (Lm + (n/m) max_i lam_max(A_i A_i')))}

The differences vanish at the solution, so that the limit is exact, whoever answers.

p defaults to m/n. Differs from the paper: there one party answers, with the factor n; its short
listing also has grad r_i inside A_i'[.], where not even the sizes fit.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from fedloom.algorithms.vertical import references, scaling
from fedloom.algorithms.vertical.references import ReferenceHub, ReferenceParty
from fedloom.algorithms.vertical.scaling import Constants
from fedloom.cohorts import everyone, uniform
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import at_least, param
from fedloom.protocol import Algorithm, Replies, Round, algorithm, ask
from fedloom.types import Array, Nothing, Scalar


def estimate(replies: Replies, n: int) -> Array:
    """Unbiased for the sum over all parties: (n/m) times the sum over those asked."""
    return (n / len(replies.cohort)) * replies.sum()


@algorithm
class EGVFLPartial(Algorithm):
    """Extragradient steps in which only some parties send their products."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    cohort: int | None = param(
        at_least(1).or_none("everyone"), "parties that answer in an iteration", default=1
    )
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
        """The price to all, products from a few, and at times an exchange in full."""
        chosen, tossed = jax.random.split(key)
        p = self._chance(fed.n)
        half = references.halves(hub, fed, p)
        message = (half.price, jnp.asarray(p, half.price.dtype))
        yield ask(self.move, message, to=everyone(fed.n))
        differences = yield ask(self.report, (), to=uniform(chosen, fed.n, self.cohort))
        products = hub.anchored + estimate(differences, fed.n)
        slack, price = references.whole(hub, fed, half, products)
        after = hub._replace(slack=slack, price=price)
        coin = references.toss(tossed, p)
        hub = yield from references.refreshed(
            self.refresh_references, hub, after, fed, coin, self.reference
        )
        return hub, ()

    def move(self, client: ReferenceParty, message: tuple, f: PartyOracle, key: Array, /) -> tuple:
        """Both half-steps of the party."""
        price, p = message
        half = references.half_point(client, f, p)
        share = references.next_share(client, f, p, half, client.scale.beta * f.adjoint(price))
        return client._replace(share=share, before=client.share, half=half), ()

    def report(
        self, client: ReferenceParty, nothing: Nothing, f: PartyOracle, key: Array, /
    ) -> tuple:
        """Answer with A_i(xh_i - w_i)."""
        return client, client.scale.beta * f.forward(client.half - client.reference)

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

    def _chance(self, n: int) -> Scalar:
        if self.refresh is not None:
            return self.refresh
        return 1.0 if self.cohort is None else self.cohort / n

    def _theory(self, c: Constants, like: Array) -> Array:
        """The step of Theorem 3.5, for m of n parties."""
        asked = c.n if self.cohort is None else self.cohort
        noise = (c.joint + (c.n / asked) * c.largest) / self._chance(c.n)
        limit = jnp.maximum(jnp.maximum(1, c.ridge), jnp.maximum(c.loss, jnp.sqrt(noise)))
        return 0.25 / limit
