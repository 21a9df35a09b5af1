"""EGVFL with coordinate sampling: parties compute only some entries of their products.

Beznosikov et al., Algorithm 5. The common part is in `references`; here

    hub       sends yh, in full
    party     answers K of the s entries of A_i(xh_i - w_i), which the hub scales by s/K
    party     A_i'[yh] = A_i'u + (d_i/K_i) (K_i of the d_i entries of A_i'(yh - u));  A_i'u is kept

    step = (1/4) min{1, 1/L_r, 1/L_l, sqrt(p K / (s (Lm + own))),
                     sqrt(p / (max_i (d_i/K_i) sum_i lam_max(A_i A_i')))}
    own = max_i lam_max(A_i'A_i) where parties draw rows apart, 0 where they draw alike

K = ceil(rows per cent of s), K_i = ceil(columns per cent of d_i), without replacement. p defaults
to the cost of an iteration as a part of that of full products.

Differs from the paper: it takes one row and one column, with the factors s and d_i.
"""

import math

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.algorithms.vertical import references, scaling
from fedloom.algorithms.vertical.references import UP, ReferenceHub, ReferenceParty, common_key
from fedloom.algorithms.vertical.scaling import Constants
from fedloom.cohorts import everyone
from fedloom.operators.compressors.sparse import PER_CENT, RandK, Sample
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import flag, param
from fedloom.protocol import Round, algorithm, ask
from fedloom.types import Array


def some_columns(f: PartyOracle, y: Array, key: Array, per_cent: int) -> Array:
    """An unbiased estimate of A'y from some of its entries, scaled by d/K."""
    width = f.block.shape[1]
    count = math.ceil(per_cent * width / 100)
    columns = draws.distinct(key, draws.domain(width), count)
    entries = f.block.some_of_adjoint(columns, y) * (width / count)
    return jnp.zeros((width, *y.shape[1:]), y.dtype).at[columns].set(entries).reshape(-1)


@algorithm
class EGVFLCoordinate(references.Referenced):
    """Extragradient steps with sampled rows and columns."""

    rows: int = param(PER_CENT, "rows in a hundred of which a party computes its product")
    columns: int = param(PER_CENT, "columns in a hundred of which it computes the adjoint one")
    shared: bool = param(flag, "whether all parties draw the same rows", default=True)
    refresh: float | None = references.refresh_param()
    reference: str = references.reference_param()
    step: float | None = scaling.step_param()
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()

    def round(self, hub: ReferenceHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The price in full, some entries back, and at times an exchange in full."""
        p, up = self._chance(), common_key(hub, UP)
        half = references.halves(hub, fed, p)
        replies = yield ask(self.move, half.price, to=everyone(fed.n))
        products = hub.anchored + replies.map(lambda part: self._whole(part, hub.price, up)).sum()
        slack, price = references.whole(hub, fed, half, products)
        after = hub._replace(slack=slack, price=price)
        hub = yield from references.refreshed(self, hub, after, fed, references.toss(key, p))
        return hub, ()

    def move(self, client: ReferenceParty, price: Array, f: PartyOracle, key: Array, /) -> tuple:
        """Both half-steps of the party; answers with some entries of its difference."""
        p, beta = self._chance(), client.scale.beta
        for_columns, for_rows = jax.random.split(key)
        half = references.half_point(client, f, p)
        change = beta * some_columns(f, price - client.price, for_columns, self.columns)
        share = references.next_share(client, f, p, half, client.pull + change)
        for_rows = common_key(client, UP) if self.shared else for_rows
        rows = self._sampler().places(price[..., 0] if price.ndim > 1 else price, for_rows)
        moved = f.layout.unravel(half - client.reference)
        entries = beta * f.block.some_of_forward(rows, moved) * (len(price) / len(rows))
        reply = entries if self.shared else Sample(entries, jax.random.key_data(for_rows))
        after = client._replace(share=share, before=client.share, iterations=client.iterations + 1)
        return after, reply

    def _sampler(self) -> RandK:
        return RandK(self.rows, self.shared)

    def _whole(self, part: Array | Sample, like: Array, key: Array) -> Array:
        """Sampled entries at their places among zeros."""
        entries = part
        if isinstance(part, Sample):
            entries, key = part.values, jax.random.wrap_key_data(part.seed, impl=draws.IMPL)
        rows = self._sampler().places(like[..., 0] if like.ndim > 1 else like, key)
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
