"""Joint prediction as an exchange: every party scores the rows with its share, the hub adds up.

Where the hub has a fusion model, the parties' parts are embeddings, of which it makes scores.
"""

from typing import ClassVar, NamedTuple

from fedloom.cohorts import everyone
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.types import Array


class Scores(NamedTuple):
    """The scores of the rows, and the fusion model; an empty one where the parts are summed."""

    scores: Array
    fusion: Array


@algorithm
class Scoring(Algorithm):
    """One exchange; a party's state is its share of a model, the hub's the fusion model."""

    takes: ClassVar[str] = "vertical"
    needs_everyone: ClassVar[bool] = True
    takes_regulariser: ClassVar[bool] = True
    takes_fusion: ClassVar[bool] = True

    def init_hub(self, fed: VerticalFedView, key: Array, /) -> Scores:
        """Zero scores, until the parties are asked."""
        return Scores(fed.loss.zeros(), fed.init_fusion(key))

    def init_client(self, f: PartyOracle, key: Array, /) -> Array:
        """Zeros, until the party's own share is put here."""
        return f.zeros()

    def round(self, hub: Scores, fed: VerticalFedView, key: Array, /) -> Round:
        """Ask every party for its part of the scores."""
        parts = yield ask(self.score, (), to=everyone(fed.n))
        scores = fed.fused(hub.fusion, parts.value) if hub.fusion.size else parts.sum()
        return Scores(scores, hub.fusion), ()

    def score(
        self, client: Array, nothing: tuple, f: PartyOracle, key: Array, /
    ) -> tuple[Array, Array]:
        """The party's part of the scores, A_i x_i."""
        return client, f.forward(client)
