"""Survival: Cox's proportional hazards, stratified by client.

The hazard of a row a at client i is h_i(t) exp(a'w), with a baseline h_i of each client's own,
which nobody has to know. The partial likelihood of a client compares each event with those who were
still at risk at that client; the sum over clients is the likelihood of the model stratified by
client, so no times and no risk sets leave. Tied events are taken as Efron does: with d events at
time t, R the sum of exp(score) over those at risk and D over the events,

    f_i = -1/n_i  sum over event times ( sum over events of score - sum_{l<d} log(R - (l / d) D) ).

Labels are pairs of a time and of 1 for an event or 0 where it is only known that there was none
until then. Rows belong together in risk sets, so that a batch is all of a client's rows.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError, ParameterError
from fedloom.layout import Layout
from fedloom.models.base import Model
from fedloom.objective import Objective
from fedloom.parameters import parametrised
from fedloom.problems.base import Metric, Problem, l2_param, regulariser_param, weights_param
from fedloom.problems.outputs import check_scores
from fedloom.problems.regularisers import Regulariser
from fedloom.problems.scoring import fresh, model_param, scored
from fedloom.rows import Batch, ClientRows, Rows, Spec
from fedloom.types import Array, Held, Tree


class RiskSets(Objective):
    """The oracles of a client whose rows are compared with each other."""

    def _value(self, model: Tree, batch: Batch) -> Array:
        scores = self.problem.in_training(batch).predict(model, batch.rows.x)
        counts = jnp.ones(len(scores), bool) if batch.counts is None else batch.counts
        return efron(scores, batch.rows.y, counts) + self.problem.penalty(model)


def efron(scores: Array, labels: Held, counts: Array) -> Array:
    """Minus the log partial likelihood, over the number of rows that count."""
    # A row of padding leaves before everybody else, without an event.
    times = jnp.where(counts, labels[:, 0], -jnp.inf)
    order = jnp.argsort(times)
    times, scores = times[order], scores[order]
    events = jnp.where(counts[order], labels[order, 1], 0) > 0
    top = jax.lax.stop_gradient(jnp.where(counts[order], scores, -jnp.inf).max())
    scores = jnp.where(counts[order], scores - top, 0)  # keeps the digits of large ones
    first = jnp.searchsorted(times, times)  # where the rows of the same time begin
    # By logarithms: those at risk late may weigh nothing beside one who left early.
    at_risk = jax.lax.cumlogsumexp(scores, reverse=True)[first]

    def at_this_time(values: Array) -> Array:
        return jax.ops.segment_sum(values, first, num_segments=len(times))[first]

    own = jnp.where(events, scores - at_risk, 0)
    tied = at_this_time(jnp.where(events, jnp.exp(own), 0))  # D / R
    number = at_this_time(events.astype(scores.dtype))
    before = jnp.cumsum(events) - events  # events that stand earlier in the order
    place = (before - before[first]).astype(scores.dtype)
    left = jnp.where(events, 1 - place / jnp.maximum(number, 1) * tied, 1)
    terms = jnp.where(events, own - jnp.log(left), 0)
    return -terms.sum() / counts.sum()


def concordance(scores: np.ndarray, labels: np.ndarray) -> float:
    """Harrell's C: of the pairs of which it is known who had the event first, the share in order.

    The one with the larger score should be first; equal scores count half; nan without such a pair,
    or where a score is not finite.
    """
    times, events, scores = labels[:, 0], labels[:, 1] > 0, scores.reshape(len(labels))
    if not np.isfinite(scores).all():
        return math.nan
    right = pairs = 0.0
    for place in np.flatnonzero(events):
        later = (times > times[place]) | ((times == times[place]) & ~events)
        right += (scores[later] < scores[place]).sum() + 0.5 * (
            scores[later] == scores[place]
        ).sum()
        pairs += later.sum()
    return float(right / pairs) if pairs else math.nan


@parametrised
class Cox(Problem):
    """Cox's proportional hazards with a baseline of each client's own; ties as Efron takes them.

    Labels have the shape (rows, 2): a time, and 1 for an event or 0 for a censored row. It needs
    batch_size = None ("full" in settings), as rows are compared with all others of their client.
    """

    model: Model | None = model_param()
    l2: float = l2_param()
    regulariser: Regulariser = regulariser_param()
    weights: str = weights_param()

    def agree(self, clients: Any) -> "Cox":
        """The problem as it is, for events that are 0 or 1."""
        y = np.asarray(clients.train.y)
        wrong = ~np.isin(y[:, 1], (0, 1)) if y.ndim == 2 and y.shape[1] == 2 else np.zeros(0, bool)
        if wrong.any():
            raise DataError(
                f"Cox: an event must be 1, or 0 for a censored row; {int(wrong.sum())} of {len(y)} "
                f"rows have neither. Write 0 for other kinds of events."
            )
        return self

    def init(self, key: Array, spec: Spec) -> Tree:
        """Zero weights, or a fresh network; the baseline takes the place of an intercept."""
        if spec.classes:
            raise DataError(
                f"Cox needs labels that are pairs of a time and an event; the data have "
                f"{spec.classes} classes. Pass numbers of shape (rows, 2), with regression = true "
                f"where all of them are whole."
            )
        return fresh(self.model, False, key, spec, 0)

    def check_network(self, spec: Spec, row: Rows) -> None:
        """One score for a row."""
        if self.model is not None:
            check_scores("Cox", self.model, spec._replace(classes=0), row, 1)

    def objective(self, layout: Layout, held: ClientRows, batch_size: int | None) -> RiskSets:
        """The oracles of a client, over all of its rows."""
        if batch_size is not None:
            raise ParameterError(
                f"Cox compares each row with all others of its client, so batch_size must be none; "
                f"got {batch_size}. Pass batch_size=None, or batch_size = 'full' in [run]."
            )
        if held.rows.y.ndim != 2 or held.rows.y.shape[1] != 2:
            raise DataError(
                f"Cox needs labels of shape (rows, 2), a time and an event; got "
                f"{held.rows.y.shape}. Name the column of events with event in [data]."
            )
        return RiskSets(self, layout, held, None)

    def losses(self, model: Tree, rows: Rows) -> Array:
        """There is no loss of a single row."""
        raise ParameterError("Cox: the loss is of all rows of a client together. Use the oracles.")

    def predict(self, model: Tree, x: Held) -> Array:
        """The logarithm of each row's hazard, relative to the baseline of its client."""
        return scored(self.model, model, x).reshape(x.shape[0])

    def metrics(self) -> Mapping[str, Metric]:
        """Concordance, over the rows of all clients and at each of them."""
        return {"concordance": Metric(concordance, larger_is_better=True, of="scores")}
