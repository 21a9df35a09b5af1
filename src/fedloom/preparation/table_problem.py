"""What a client method of the preparation sees: the client's own rows, and nothing to optimise."""

from typing import Any, ClassVar

import jax.numpy as jnp

from fedloom.layout import Layout
from fedloom.parameters import parametrised
from fedloom.problems.base import Problem
from fedloom.problems.regularisers import Regulariser, Zero
from fedloom.rows import Batch, ClientRows, Spec
from fedloom.types import Array


class TableRows:
    """The rows of one client, in the place of an objective."""

    def __init__(self, layout: Layout, held: ClientRows):
        self.layout = layout
        self.size = held.size
        batch: Batch = held.everything()
        self.x, self.y = batch.rows
        counts = batch.counts
        self.counts = jnp.ones(self.x.shape[0], bool) if counts is None else counts


@parametrised
class TableProblem(Problem):
    """No problem at all: it lets a client method look at the client's rows."""

    kind: ClassVar[str] = "table"
    regulariser: Regulariser = Zero()
    weights: str = "equal"

    def init(self, key: Array, spec: Spec) -> Array:
        """There is no model; a run needs one number to carry."""
        return jnp.zeros(1)

    def objective(self, layout: Layout, held: ClientRows, batch_size: int | None) -> Any:
        """The rows themselves."""
        return TableRows(layout, held)
