"""EF-VFL: split training in which compressed differences mend what both ends hold of embeddings.

Valdeira, Xavier, Soares, Chi, "Communication-efficient vertical federated learning via compressed
error feedback", IEEE Transactions on Signal Processing 2025; the variant with private labels. Hub
and party i both hold a surrogate G_i of the embeddings of all rows:

    hub       draws a batch B
    party i   answers c_i = C(h_i(x_i)_B - G_i,B);        both ends: G_i,B <- G_i,B + c_i
    hub       w <- w - lr (grad_w l_B(w, G) + l2 w),      sends party i its own grad_{G_i} l_B(w, G)
    party i   x_i <- x_i - lr (grad h_i(x_i)' grad_{G_i} l_B(w, G) + l2 x_i)

As the networks settle, differences vanish and so does what compression loses: on a full batch it
converges as split training does, where compressed embeddings themselves (`cvfl`) end elsewhere. A
row that was drawn a few times only has a poor surrogate, so that it takes several passes over the
rows. Only what goes up is compressed. The surrogates take rows x embedding numbers at a party, and
as many for each party at the hub.

With a cohort: there is none, because a row needs the parts of all parties.

Differs from the paper: surrogates start at zero, so that c_i of a row's first batch is C(h_i); an
optimiser may stand in the place of plain steps. The paper's other variant, in which parties know
the labels and use their own embeddings as they are, is left out: labels stay with the hub here.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from fedloom.algorithms.vertical import splitting
from fedloom.algorithms.vertical.splitting import SplitHub, SplitParty
from fedloom.cohorts import everyone
from fedloom.operators.compressors import Biased, TopK
from fedloom.optimisers import Optimiser
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import Rule, param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array

_biased = Rule(lambda v: isinstance(v, Biased), "a biased compressor", TopK(25))


class SurrogateHub(NamedTuple):
    """The fusion network, and the surrogates G_i of all parties."""

    split: SplitHub
    surrogates: Array


class SurrogateParty(NamedTuple):
    """A party's network, and its surrogate G_i."""

    split: SplitParty
    surrogate: Array


@algorithm
class EFVFL(Algorithm):
    """Split training with compressed differences of embeddings, and error feedback."""

    takes: ClassVar[str] = "vertical"
    takes_fusion: ClassVar[bool] = True
    needs_everyone: ClassVar[bool] = True

    compressor: Biased = param(_biased, "the compressor C")
    lr: StepSize = param(step_size, "step size of hub and parties")
    optimiser: Optimiser = splitting.optimiser_param()

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SurrogateHub:
        """A fresh fusion network, and surrogates of zero."""
        zeros = fed.zero_part()
        surrogates = jnp.zeros((fed.n, *zeros.shape), zeros.dtype)
        return SurrogateHub(splitting.first_hub(fed, key, self.optimiser), surrogates)

    def init_client(self, f: PartyOracle, key: Array, /) -> SurrogateParty:
        """A fresh network, and a surrogate of zero."""
        split = splitting.first_party(f, key, self.optimiser)
        return SurrogateParty(split, jnp.zeros_like(f.forward(split.share)))

    def round(self, hub: SurrogateHub, fed: VerticalFedView, key: Array, /) -> Round:
        """A batch's compressed differences come up, and derivatives at the surrogates go down."""
        rows = fed.batch_rows(key)
        like = fed.zero_part()[rows]
        replies = yield ask(self.embed, splitting.seed_of(key), to=everyone(fed.n))
        mended = replies.map(lambda c: self.compressor.restore(c, like)).value
        surrogates = hub.surrogates.at[:, rows].add(mended)
        labels = splitting.labels_of(fed, rows)
        own, of_parts = splitting.slopes(fed, hub.split.model, surrogates[:, rows], labels)
        yield ask(self.step, of_parts, to=everyone(fed.n), each=True)
        split = splitting.moved_hub(hub.split, own, self.optimiser, self.lr)
        return SurrogateHub(split, surrogates), ()

    def embed(self, client: SurrogateParty, seed: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The compressed difference of the batch's embeddings to their surrogates."""
        split, surrogate = client
        rows = f.batch_rows(splitting.key_of(seed))
        difference = f.on_rows(rows).forward(split.share) - surrogate[rows]
        sent = self.compressor.compress(difference, key)
        surrogate = surrogate.at[rows].add(self.compressor.restore(sent, difference))
        return SurrogateParty(split._replace(seed=seed), surrogate), sent

    def step(self, client: SurrogateParty, slope: Array, f: PartyOracle, key: Array, /) -> tuple:
        """A step of the party's network."""
        split = splitting.moved_party(client.split, slope, f, self.optimiser, self.lr)
        return client._replace(split=split), ()

    def model(self, hub: SurrogateHub, fed: VerticalFedView, /) -> Array:
        """The fusion network."""
        return hub.split.model

    def deployed(self, model: Array, client: SurrogateParty, f: PartyOracle, /) -> Array:
        """The party's network."""
        return client.split.share
