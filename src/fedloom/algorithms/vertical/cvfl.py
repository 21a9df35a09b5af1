"""C-VFL: split training with compressed embeddings, and local steps on stale ones of the others.

Castiglia, Das, Wang, Patterson, "Compressed-VFL: communication-efficient learning with vertically
partitioned data", ICML 2022, Algorithm 1, with Q local steps a round:

    hub       draws a batch B
    party i   answers C(h_i(x_i)_B)
    hub       sends all parties  w, C(h_1), ..., C(h_n), and the labels of B
    party i   Q times:  x_i <- x_i - lr (grad_{x_i} l_B(w, C(h_j) for j != i, h_i(x_i)) + l2 x_i)
    hub       Q times:  w <- w - lr (grad_w l_B(w, C(h_1), ..., C(h_n)) + l2 w)

The labels of a batch leave the label party, as in the paper: local steps need them. Where they must
stay, use `split_training` or `ef_vfl`; between real sites the label party's policy must name `cvfl`
among its `methods`. What compression loses does not vanish: with a compressor
that keeps a fixed share it ends near a solution, not at one.

Paper     here                      Paper     here
theta_0   CVFL's hub, model (w)     Q         local_steps
theta_m   SplitParty.share (x_i)    C_m       compressor

With a cohort: there is none, because a row needs the parts of all parties.

Differs from the paper: w goes down uncompressed, because what a sparse copy of a network does to
embeddings is not small; and an optimiser may stand in the place of plain steps. Without a fusion
network the parties' parts of the scores are summed.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.vertical import splitting
from fedloom.algorithms.vertical.splitting import Memory, SplitHub, SplitParty
from fedloom.cohorts import everyone
from fedloom.local import repeat
from fedloom.operators.compressors import Compressor, TopK
from fedloom.optimisers import Optimiser
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, at_least, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array, Tree

_compressor = Rule(lambda v: isinstance(v, Compressor), "a compressor", TopK(25))


class Snapshot(NamedTuple):
    """What parties need for local steps: all that the scores of a batch are made of, and labels."""

    model: Array  # the fusion network w
    parts: Tree  # the parties' compressed embeddings
    labels: Array
    place: Array  # which of the embeddings are the party's own


@algorithm
class CVFL(Algorithm):
    """Split training with compressed embeddings of all parties and local steps."""

    takes: ClassVar[str] = "vertical"
    takes_fusion: ClassVar[bool] = True
    tells_labels: ClassVar[bool] = True
    needs_everyone: ClassVar[bool] = True

    compressor: Compressor = param(_compressor, "the compressor C of the embeddings")
    lr: StepSize = param(step_size, "step size of hub and parties")
    local_steps: int = param(at_least(1), "steps on a batch, Q", default=10)
    optimiser: Optimiser = splitting.optimiser_param()

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SplitHub:
        """A fresh fusion network."""
        return splitting.first_hub(fed, key, self.optimiser)

    def init_client(self, f: PartyOracle, key: Array, /) -> SplitParty:
        """A fresh network."""
        return splitting.first_party(f, key, self.optimiser)

    def round(self, hub: SplitHub, fed: VerticalFedView, key: Array, /) -> Round:
        """A batch's compressed embeddings come up, go down to all, and all take local steps."""
        seed, rows = splitting.seed_of(key), fed.batch_rows(key)
        labels, like = splitting.labels_of(fed, rows), fed.zero_part()[rows]
        replies = yield ask(self.embed, seed, to=everyone(fed.n))
        shown = Snapshot(hub.model, replies.value, labels, jnp.zeros((), np.int32))
        messages = jax.tree.map(lambda v: jnp.broadcast_to(v, (fed.n, *v.shape)), shown)
        messages = messages._replace(place=jnp.arange(fed.n, dtype=np.int32))
        yield ask(self.train, messages, to=everyone(fed.n), each=True)
        parts = self._restored(replies.value, like, seed)

        def step(state: SplitHub, _: Array) -> SplitHub:
            own, _ = splitting.slopes(fed, state.model, parts, labels)
            return splitting.moved_hub(state, own, self.optimiser, self.lr)

        return repeat(step, hub, key, self.local_steps), ()

    def embed(self, client: SplitParty, seed: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The compressed embeddings of the batch."""
        part = f.on_rows(f.batch_rows(splitting.key_of(seed))).forward(client.share)
        drawn = splitting.common_key(self.compressor, seed, key)
        return client._replace(seed=seed), self.compressor.compress(part, drawn)

    def train(self, client: SplitParty, shown: Snapshot, f: PartyOracle, key: Array, /) -> tuple:
        """Local steps with one's own embeddings as they become, and the others' as they were."""
        batch = f.on_rows(f.batch_rows(splitting.key_of(client.seed)))
        like = jax.eval_shape(batch.forward, client.share)
        parts = self._restored(shown.parts, like, client.seed)

        def loss(x: Array) -> Array:
            mixed = parts.at[shown.place].set(batch.forward(x))
            return f.rows_loss(shown.model, mixed, shown.labels)

        def step(state: tuple[Array, Memory], _: Array) -> tuple[Array, Memory]:
            x, memory = state
            gradient = jax.grad(loss)(x) + f.grad_r(x)
            return splitting.moved(x, gradient, memory, self.optimiser, self.lr)

        share, memory = repeat(step, (client.share, client.memory), key, self.local_steps)
        return SplitParty(share, memory, client.seed), ()

    def deployed(self, model: Array, client: SplitParty, f: PartyOracle, /) -> Array:
        """The party's network."""
        return client.share

    def _restored(self, parts: Tree, like: Array | jax.ShapeDtypeStruct, seed: Array) -> Array:
        """The parties' embeddings as all see them."""
        drawn = splitting.common_key(self.compressor, seed, splitting.key_of(seed))
        return jax.vmap(lambda part: self.compressor.restore(part, like, drawn))(parts)
