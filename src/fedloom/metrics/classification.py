"""Metrics of a classification, as scikit-learn defines them; nan where a class is lacking.

Labels are numbers of classes; decisions, ranks and probabilities are those of `links.py`. Row by
row, `brier` and `log_loss` are numbers whose mean is the metric.
"""

import math

import numpy as np

from fedloom.errors import ParameterError

Array = np.ndarray

BINS = 15  # of the calibration error


def auc(ranked: Array, labels: Array) -> float:
    """P(score of a positive > score of a negative), ties counting half; nan with one class."""
    if ranked.ndim > 1:
        raise ParameterError(
            f"metric 'auc' needs labels of 2 classes and one score a row; this problem gives "
            f"scores of {ranked.shape[1]} classes. Use accuracy or average_precision instead."
        )
    positives = labels > 0
    p, q = int(positives.sum()), int((~positives).sum())
    if p == 0 or q == 0:
        return math.nan
    others = np.sort(ranked[~positives])
    below = np.searchsorted(others, ranked[positives], "left")
    up_to = np.searchsorted(others, ranked[positives], "right")
    return float((below + up_to).sum() / (2 * p * q))


def f1(decided: Array, labels: Array) -> float:
    """2 TP / (2 TP + FP + FN) of the second class of two; of several, the mean over classes.

    Of several classes those count that occur among labels or decisions. Without a row of the second
    class of two, it says nothing of the model.
    """
    truth = _truth(decided, labels)
    right, known = (decided & truth).sum(0), decided.sum(0) + truth.sum(0)
    if len(known) == 2:
        return float(2 * right[1] / known[1]) if truth[:, 1].any() else math.nan
    return float((2 * right[known > 0] / known[known > 0]).mean())


def balanced_accuracy(decided: Array, labels: Array) -> float:
    """The mean over the classes that there are of the share of their rows that is found."""
    truth = _truth(decided, labels)
    there = truth.any(0)
    return float(((decided & truth).sum(0)[there] / truth.sum(0)[there]).mean())


def average_precision(ranked: Array, labels: Array) -> float:
    """Precision, averaged over the recall that each threshold adds; of several classes the mean.

    It needs a row of each class that is looked for: the second of two, or every one of several.
    """
    if ranked.ndim == 1:
        return _average_precision_of(ranked, labels == 1)
    each = [_average_precision_of(ranked[:, one], labels == one) for one in range(ranked.shape[1])]
    return float(np.mean(each))


def _average_precision_of(ranked: np.ndarray, positive: np.ndarray) -> float:
    if not positive.any():
        return math.nan
    order = np.argsort(-ranked, kind="stable")
    sorted_scores, hits = ranked[order], np.cumsum(positive[order])
    last = np.append(np.diff(sorted_scores) != 0, True)  # of rows with the same score
    found, taken = hits[last], np.flatnonzero(last) + 1
    return float((np.diff(found, prepend=0) * (found / taken)).sum() / found[-1])


def calibration_error(chances: Array, labels: Array) -> float:
    """The mean distance of confidence and accuracy, over bins of the confidence.

    The confidence is the probability of the class that is chosen.
    """
    confidence, right = chances.max(-1), chances.argmax(-1) == labels
    edges = np.linspace(0, 1, BINS + 1)
    bins = np.searchsorted(edges[1:-1], confidence)  # a bin has its upper end
    apart = np.bincount(bins, confidence - right, BINS)
    return float(np.abs(apart).sum() / len(labels))


def brier(chances: Array, labels: Array) -> np.ndarray:
    """(p - y)^2 for two classes; for several, the sum over classes."""
    squares = ((chances - _truth(chances, labels)) ** 2).sum(-1)
    return np.asarray(squares / 2 if chances.shape[1] == 2 else squares)


def log_loss(chances: Array, labels: Array) -> np.ndarray:
    """-log p(label), with probabilities kept from 0 and 1 by 2e-16."""
    tiny = np.finfo(np.float64).eps
    chosen = np.take_along_axis(chances, labels[:, None].astype(int), -1)[:, 0]
    return -np.log(np.clip(chosen, tiny, 1 - tiny))


def _truth(like: Array, labels: Array) -> np.ndarray:
    """Whether a row is of a class, for each row and each class."""
    return np.asarray(np.arange(like.shape[1]) == labels[:, None])
