"""EGVFL with coordinate sampling: parties compute only some entries of their products.

Beznosikov et al., Algorithm 5. The common part is in `references`; here

    hub       sends yh, in full
    party     A_i'[yh] = A_i'u + (d_i/K_i) (K_i of the d_i entries of A_i'(yh - u));  A_i'u is kept
    party     answers (s/K) (K of the s entries of A_i(xh_i - w_i))
    hub       [sum_i A_i xh_i] = sum_i A_i w_i + sum_i (the answers, zero where no entry came)

    step = (1/4) min{1, 1/L_r, 1/L_l, sqrt(p K / (s (Lm + own))),
                     sqrt(p / (max_i (d_i/K_i) sum_i lam_max(A_i A_i')))}
    own = max_i lam_max(A_i'A_i) where parties draw rows apart, 0 where they draw alike

K = ceil(rows per cent of s), K_i = ceil(columns per cent of d_i), without replacement. p defaults
to the cost of an iteration as a part of that of full products.

Differs from the paper: it takes one row and one column, with the factors s and d_i.
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.vertical import references, scaling
from fedloom.algorithms.vertical.references import UP, ReferenceHub, ReferenceParty, common_key
from fedloom.algorithms.vertical.scaling import Constants
from fedloom.cohorts import everyone
from fedloom.operators.compressors.sparse import PER_CENT, Sample
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import flag, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


def some_places(key: Array, size: int, per_cent: int) -> Array:
    """Draw `per_cent` of `size` places, rounded up, without replacement."""
    return draws.distinct(key, draws.domain(size), math.ceil(per_cent * size / 100))


def some_columns(f: PartyOracle, y: Array, key: Array, per_cent: int) -> Array:
    """An unbiased estimate of A'y from some of its entries, scaled by d/K."""
    width = f.block.shape[1]
    columns = some_places(key, width, per_cent)
    entries = f.block.some_of_adjoint(columns, y) * (width / len(columns))
    return jnp.zeros((width, *y.shape[1:]), y.dtype).at[columns].set(entries).reshape(-1)


@algorithm
class EGVFLCoordinate(Algorithm):
    """Extragradient steps with sampled rows and columns."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True

    rows: int = param(PER_CENT, "per cent of the entries of its product that a party computes")
    columns: int = param(
        PER_CENT, "per cent of the entries of the adjoint product that a party computes"
    )
    shared: bool = param(flag, "whether all parties draw the same rows", default=True)
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
        """The price in full, some entries back, and at times an exchange in full."""
        p, rows_key = self._chance(), common_key(hub, UP)
        half = references.halves(hub, fed, p)
        replies = yield ask(self.move, half.price, to=everyone(fed.n))
        differences = replies.map(lambda reply: self._among_zeros(reply, hub.price, rows_key))
        products = hub.anchored + differences.sum()
        slack, price = references.whole(hub, fed, half, products)
        after = hub._replace(slack=slack, price=price)
        coin = references.toss(key, p)
        hub = yield from references.refreshed(
            self.refresh_references, hub, after, fed, coin, self.reference
        )
        return hub, ()

    def move(self, client: ReferenceParty, price: Array, f: PartyOracle, key: Array, /) -> tuple:
        """Both half-steps, with some columns; answers with some rows of the difference."""
        p, beta = self._chance(), client.scale.beta
        columns_key, rows_key = jax.random.split(key)
        half = references.half_point(client, f, p)
        change = beta * some_columns(f, price - client.price, columns_key, self.columns)
        share = references.next_share(client, f, p, half, client.pull + change)

        rows_key = common_key(client, UP) if self.shared else rows_key
        rows = some_places(rows_key, len(price), self.rows)
        way = f.layout.unravel(half - client.reference)  # xh_i - w_i
        entries = beta * f.block.some_of_forward(rows, way) * (len(price) / len(rows))
        reply = entries if self.shared else Sample(entries, jax.random.key_data(rows_key))
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

    def _among_zeros(self, reply: Any, like: Array, rows_key: Array) -> Array:
        """The entries of a reply at their rows; where rows are drawn apart, it holds their key."""
        entries = reply
        if not self.shared:
            entries = reply.values
            rows_key = jax.random.wrap_key_data(reply.seed, impl=draws.IMPL)
        rows = some_places(rows_key, len(like), self.rows)
        return jnp.zeros_like(like).at[rows].set(entries)

    def _chance(self) -> float:
        if self.refresh is not None:
            return self.refresh
        return (self.rows + self.columns) / 200

    def _theory(self, c: Constants, like: Array) -> Array:
        """The step of Theorem 3.6, for K rows and K_i columns."""
        p = self._chance()
        own = 0.0 if self.shared else c.largest
        by_rows = (100 / self.rows) * (c.joint + own) / p
        by_columns = (100 / self.columns) * c.total / p
        noise = jnp.sqrt(jnp.maximum(by_rows, by_columns))
        return 0.25 / jnp.maximum(jnp.maximum(1, c.ridge), jnp.maximum(c.loss, noise))
