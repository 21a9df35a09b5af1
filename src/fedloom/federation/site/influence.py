"""How many rows a gradient is really of, where rows count by their class.

`min_batch` of a policy counts rows. With a weight of 1e-30 for one class and of 1 for the other, a
gradient of a thousand rows can be of one patient, to every digit, and secure sums do not help if
nobody else has that class. What counts is the effective number of rows (sum w)^2 / sum w^2: n rows
that count alike make n, and rows of which one has nearly all the weight make little more than 1.

A site takes it for the worst batch that could be drawn, and not for its rows as they are. So it
follows from what all know, the weights and the number of rows, and a refusal tells nothing; and it
holds for each batch, as a bound on all rows together would not: a rare class is rarer in a batch.
"""

from collections.abc import Sequence

from fedloom.errors import RefusedError


def least_effective(weights: Sequence[float], rows: int) -> float:
    """The effective number of as many rows with these weights, each of which some row may have.

    The worst batch has rows of the heaviest weight, 1, and of the lightest, s. With m of the former
    it is least at m = rows s / (1 + s); but there is one such row at least.
    """
    s = min(weights) / max(weights)
    heavy = max(1.0, rows * s / (1 + s))
    light = rows - heavy
    return (heavy + light * s) ** 2 / (heavy + light * s**2)


def check_influence(weights: Sequence[float], batch: int, rows: int, least: int) -> None:
    """Refuse weights by which a batch may be of fewer rows than the owner wants.

    Args:
        weights: What rows count, of each class that this site is known to have.
        batch: The rows of a batch.
        rows: The rows of this site.
        least: The owner's `min_batch`.
    """
    drawn = min(batch, rows)
    if len(set(weights)) > 1 and least_effective(weights, drawn) < least:
        raise RefusedError(
            f"this site's policy wants gradients of at least {least} rows, and in a batch of "
            f"{drawn} whose rows count between {min(weights):.3g} and {max(weights):.3g} by their "
            f"class, a few rows may have nearly all the weight. Let class_weights or "
            f"positive_rate of [problem] differ less, raise batch_size, or let its owner lower "
            f"min_batch."
        )
