"""What a problem's scores say of a row: a class, an order, probabilities, or a value.

A problem states it as its link (`Problem.link`):

    logit       one score a row, the log-odds of the second class; above 0 it is chosen
    softmax     one score for each class, logarithms of probabilities up to a constant
    sign        one score a row, of which only the order and the sign mean something
    identity    the value that is predicted
"""

from collections.abc import Callable, Mapping

import numpy as np

from fedloom.errors import ParameterError

Array = np.ndarray

DECISIONS, RANKS, PROBABILITIES, VALUES = "decisions", "ranks", "probabilities", "values"
GIVES: Mapping[str | None, tuple[str, ...]] = {
    "logit": (DECISIONS, RANKS, PROBABILITIES),
    "softmax": (DECISIONS, RANKS, PROBABILITIES),
    "sign": (DECISIONS, RANKS),
    "identity": (VALUES,),
    None: (),  # the problem does not say
}


def flat(scores: Array, labels: Array, link: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels, one label a row; numbers are of double precision.

    A row of several labels, such as the characters of a text, counts as several rows.
    """
    labels, scores = np.asarray(labels), np.asarray(scores, np.float64)
    if link == "identity" and labels.ndim > 1:
        raise ParameterError(
            f"metrics of a regression need one value a row; the labels have the shape "
            f"{labels.shape}. Pass a metric of your own: "
            f'fl.Metric(function, larger_is_better=..., of="scores").'
        )
    flat_labels = labels.ravel().astype(np.float64 if link == "identity" else labels.dtype)
    shape = (len(flat_labels), scores.shape[-1]) if link == "softmax" else flat_labels.shape
    return scores.reshape(shape), flat_labels


def decisions(scores: np.ndarray, link: str) -> np.ndarray:
    """Whether a class is chosen, for each row and each class."""
    if link != "softmax":
        return np.stack([scores <= 0, scores > 0], axis=-1)
    return np.arange(scores.shape[1]) == scores.argmax(-1)[:, None]


def ranks(scores: np.ndarray, link: str) -> np.ndarray:
    """Numbers that grow with the belief in a class: in the second of two, or in each of several."""
    if link != "softmax":
        return scores
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else _softmax(scores)


def probabilities(scores: np.ndarray, link: str) -> np.ndarray:
    """The probability of each class, a row for each row."""
    if link == "softmax":
        return _softmax(scores)
    return np.stack([_sigmoid(-scores), _sigmoid(scores)], axis=-1)


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(scores))  # never too large
    return np.where(scores >= 0, 1, small) / (1 + small)


VIEWS: Mapping[str, Callable[[np.ndarray, str], np.ndarray]] = {
    DECISIONS: decisions,
    RANKS: ranks,
    PROBABILITIES: probabilities,
    VALUES: lambda scores, link: scores,
}
