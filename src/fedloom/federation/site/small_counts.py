"""Counts of a few rows, which are about these rows: how a site hides them in what it tells.

`least` is the owner's `least_count`. Totals stay true, so that weights by the number of rows do.
"""

import numpy as np

from fedloom.rows import Rows


def told(counts: list[int], least: int) -> list[int]:
    """Counts of classes with the same sum, none of which lies between 0 and `least`.

    What a small one gets too much is taken from the largest. Where no class can spare it, the rows
    are told as if they were evenly divided, which says nothing of any class.
    """
    raised = [at_least(count, least) for count in counts]
    excess = sum(raised) - sum(counts)
    largest = int(np.argmax(raised)) if raised else 0
    if excess == 0:
        return raised
    if raised[largest] - excess >= least:
        raised[largest] -= excess
        return raised
    there = [i for i, count in enumerate(counts) if count]
    share, more = divmod(sum(counts), len(there))
    even = {i: share + (k < more) for k, i in enumerate(there)}
    return [even.get(i, 0) for i in range(len(counts))]


def at_least(count: int, least: int) -> int:
    """No count between 0 and `least`."""
    return max(count, least) if count else 0


def without_rare(rows: Rows, least: int) -> Rows:
    """Columns to count and sum, without what a few rows alone have.

    A word of fewer than `least` rows counts as missing. Fewer gaps than that are filled: numbers
    with the mean of the column at this site, words with its most frequent one.
    """
    x, y = np.array(rows.x, float), np.array(rows.y)
    for column in x.T:
        gaps = np.isnan(column)
        if 0 < gaps.sum() < least and not gaps.all():
            column[gaps] = column[~gaps].mean()
    for words in y.T:
        counts = np.bincount(words[words >= 0], minlength=1)
        words[(words >= 0) & (counts[words] < least)] = -1
        gaps = words < 0
        if 0 < gaps.sum() < least and counts.max() >= least:
            words[gaps] = np.argmax(counts)
    return Rows(x, y)
