"""Sharing ADMM: each party solves for its share, the hub for the mean of the products.

Boyd et al. 2011, section 8.3, in scaled form; P = (1/n) sum_i A_i x_i, n parties.

    hub       sends q = z - P - u
    party     x_i <- argmin_x r_i(x) + (rho/2) |A_i x - (A_i x_i + q)|^2,   answers A_i x_i
    hub       z <- argmin_z l(n z) + (n rho/2) |z - u - P|^2;   u <- u + P - z

    rho = 1/sqrt(Lm); with the beta-trick beta/sqrt(Lm), beta = L_l^(1/3) / Lm^(1/6)

The z-step is the proximal map of the loss, so rho u = grad l(n z) after it. A party keeps the
eigenvectors of A_i'A_i, so its step is exact and costs two small products where r_i is the l2
penalty alone; with a regulariser it takes `inner_steps` accelerated proximal gradient steps.

Differs from the paper: Beznosikov et al. assume inner gradient solves for both steps; here the
hub's is the exact proximal map and the party's exact where it can be.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedloom.algorithms.vertical import scaling
from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import at_least, param, positive
from fedloom.problems.regularisers import Zero
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class SharingHub(NamedTuple):
    """The mean slack z, the scaled dual u, the mean product P, and rho."""

    slack: Array
    dual: Array
    product: Array
    rho: Array


class SharingParty(NamedTuple):
    """A party's share, A_i'A_i by its eigenvectors and eigenvalues, and rho."""

    share: Array
    vectors: Array
    values: Array
    rho: Array


@algorithm
class SharingADMM(Algorithm):
    """ADMM that alternates between the parties' shares and the hub's slack."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True
    takes_regulariser: ClassVar[bool] = True

    rho: float | None = param(
        positive.or_none("by theory, from eigenvalues found in the opening"),
        "weight of the quadratic terms",
        default=None,
    )
    beta_trick: bool = scaling.beta_param()
    eigenvalue: str = scaling.eigenvalue_param()
    inner_steps: int = param(
        at_least(1), "steps of a party's own solver, if there is a regulariser", default=50
    )

    gauge = staticmethod(scaling.gauge)
    correlate = staticmethod(scaling.correlate)

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SharingHub:
        """Zero slack and dual."""
        zeros = fed.loss.zeros()
        return SharingHub(zeros, zeros, zeros, self._given(zeros.dtype))

    def init_client(self, f: PartyOracle, key: Array, /) -> SharingParty:
        """A zero share, and the eigenvectors that every later step uses."""
        values, vectors = jnp.linalg.eigh(f.gram())
        share = f.zeros()
        return SharingParty(share, vectors, jnp.maximum(values, 0), self._given(share.dtype))

    def opening(self, hub: SharingHub, fed: VerticalFedView, key: Array, /) -> Round:
        """The weight rho, where it is left to theory."""
        if self.rho is not None:
            return hub, ()
        constants = yield from scaling.find_constants(fed, key, self.eigenvalue)
        beta = scaling.balanced(constants) if self.beta_trick else 1.0
        rho = jnp.asarray(beta / jnp.sqrt(constants.joint), hub.rho.dtype)
        yield ask(self.settle, rho, to=everyone(fed.n))
        return hub._replace(rho=rho), ()

    def settle(self, client: SharingParty, rho: Array, f: PartyOracle, key: Array, /) -> tuple:
        """Keep the rho that the hub found."""
        return client._replace(rho=rho), ()

    def round(self, hub: SharingHub, fed: VerticalFedView, key: Array, /) -> Round:
        """Shares, then slack, then dual."""
        slack, dual, product, rho = hub
        products = yield ask(self.solve, slack - product - dual, to=everyone(fed.n))
        product = products.sum() / fed.n
        slack = fed.loss.prox(fed.n * (dual + product), fed.n / rho) / fed.n
        return SharingHub(slack, dual + product - slack, product, rho), ()

    def solve(self, client: SharingParty, q: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The party's next share, by its eigenvectors or by proximal gradients."""
        exact = isinstance(f.problem.regulariser, Zero)
        share = self._exactly(client, q, f) if exact else self._nearly(client, q, f)
        return client._replace(share=share), f.forward(share)

    def _exactly(self, client: SharingParty, q: Array, f: PartyOracle) -> Array:
        """The solution of (l2 I + rho A'A) x = rho A'(A x_i + q)."""
        rho, vectors = client.rho, client.vectors
        old = vectors.T @ f.layout.unravel(client.share)
        pulled = vectors.T @ f.block.adjoint(q)
        values = client.values.reshape(-1, *[1] * (old.ndim - 1))
        size = f.problem.l2 + rho * values
        right = rho * (values * old + pulled)
        return (vectors @ jnp.where(size > 0, right / jnp.where(size > 0, size, 1), 0)).reshape(-1)

    def _nearly(self, client: SharingParty, q: Array, f: PartyOracle) -> Array:
        """Accelerated proximal gradients from the share of before (Beck and Teboulle 2009)."""
        rho, vectors = client.rho, client.vectors
        step = 1 / (rho * jnp.maximum(client.values[-1], jnp.finfo(q.dtype).tiny))
        pulled = f.block.adjoint(q)

        def slope(x: Array) -> Array:
            change = f.layout.unravel(x - client.share)
            values = client.values.reshape(-1, *[1] * (change.ndim - 1))
            gram = vectors @ (values * (vectors.T @ change))
            return rho * (gram - pulled).reshape(-1)

        def body(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, v, t = state
            new = f.prox(v - step * slope(v), step)
            uphill = (v - new) @ (new - x) > 0
            t_new = jnp.where(uphill, 1, (1 + jnp.sqrt(1 + 4 * t * t)) / 2)
            momentum = jnp.where(uphill, 0, (t - 1) / t_new)
            return new, new + momentum * (new - x), t_new

        first = (client.share, client.share, jnp.ones((), q.dtype))
        return jax.lax.fori_loop(0, self.inner_steps, body, first)[0]

    def model(self, hub: SharingHub, fed: VerticalFedView, /) -> Array:
        """The scores of the rows as the hub knows them: the slack of all parties."""
        return fed.n * hub.slack

    def deployed(self, model: Array, client: SharingParty, f: PartyOracle, /) -> Array:
        """The party's share of the model."""
        return client.share

    def _given(self, dtype: DTypeLike) -> Array:
        return jnp.asarray(1.0 if self.rho is None else self.rho, dtype)
