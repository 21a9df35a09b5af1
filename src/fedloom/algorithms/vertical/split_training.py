"""Split training of networks at the parties and a fusion network at the label party (SplitNN).

Vepakomma, Gupta, Swedish, Raskar, "Split learning for health", 2018, for vertically divided data;
Ceballos et al., "SplitNN-driven vertical partitioning", 2020, with embeddings side by side:

    hub       draws a batch B
    party i   answers h_i(x_i) of the rows in B
    hub       w <- w - lr (grad_w l_B + l2 w),            sends party i its own grad_{h_i} l_B
    party i   x_i <- x_i - lr (grad h_i(x_i)' grad_{h_i} l_B + l2 x_i)

This is a step of stochastic gradient descent on the whole network; labels stay with the hub. What
comes down, derivatives of the loss in embeddings, tells a party much of the labels nonetheless.

With a cohort: there is none, because a row needs the parts of all parties.

Differs from the paper: the batch is drawn anew in each round, and an optimiser may stand in the
place of plain steps. Without a fusion network the parties' parts of the scores are summed.
"""

from typing import ClassVar

from fedloom.algorithms.vertical import splitting
from fedloom.algorithms.vertical.splitting import SplitHub, SplitParty
from fedloom.cohorts import everyone
from fedloom.optimisers import Optimiser
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.parameters import param
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.schedules import StepSize, step_size
from fedloom.types import Array


@algorithm
class SplitTraining(Algorithm):
    """Split training: embeddings go to the hub, their derivatives back to the parties."""

    takes: ClassVar[str] = "vertical"
    takes_fusion: ClassVar[bool] = True
    needs_everyone: ClassVar[bool] = True

    lr: StepSize = param(step_size, "step size of hub and parties")
    optimiser: Optimiser = splitting.optimiser_param()

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> SplitHub:
        """A fresh fusion network."""
        return splitting.first_hub(fed, key, self.optimiser)

    def init_client(self, f: PartyOracle, key: Array, /) -> SplitParty:
        """A fresh network."""
        return splitting.first_party(f, key, self.optimiser)

    def round(self, hub: SplitHub, fed: VerticalFedView, key: Array, /) -> Round:
        """A batch's embeddings come up, and derivatives go down, to each party its own."""
        labels = splitting.labels_of(fed, fed.batch_rows(key))
        parts = (yield ask(self.embed, splitting.seed_of(key), to=everyone(fed.n))).value
        own, of_parts = splitting.slopes(fed, hub.model, parts, labels)
        yield ask(self.step, of_parts, to=everyone(fed.n), each=True)
        return splitting.moved_hub(hub, own, self.optimiser, self.lr), ()

    def embed(self, client: SplitParty, seed: Array, f: PartyOracle, key: Array, /) -> tuple:
        """The embeddings of the batch."""
        rows = f.batch_rows(splitting.key_of(seed))
        return client._replace(seed=seed), f.on_rows(rows).forward(client.share)

    def step(self, client: SplitParty, slope: Array, f: PartyOracle, key: Array, /) -> tuple:
        """A step of the party's network."""
        return splitting.moved_party(client, slope, f, self.optimiser, self.lr), ()

    def deployed(self, model: Array, client: SplitParty, f: PartyOracle, /) -> Array:
        """The party's network."""
        return client.share
