"""The errors of a problem of classes on data that have others, or numbers."""

from typing import Any

import numpy as np

from fedloom.errors import DataError

_MOST_CLASSES, _MOST_CLIENTS = 10, 3  # that a message lists


def not_two_classes(owner: str, clients: Any, others: str) -> DataError:
    """The error that lists the classes of clients that do not have two."""
    held = [set(np.unique(clients.of(i).y).tolist()) for i in range(len(clients))]
    names = range(clients.classes) if clients.labels is None else clients.labels
    listed = []
    for k, label in enumerate(list(names)[:_MOST_CLASSES]):
        where = [name for name, classes in zip(clients.names, held, strict=True) if k in classes]
        listed.append(f"{str(label)!r} ({_some(where, len(clients))})")
    more = clients.classes - len(listed)
    listed += [f"{more} more"] if more > 0 else []
    if clients.classes == 1:
        return DataError(
            f"{owner} needs rows of both classes; all are of class {listed[0]}. Add rows of the "
            f"other one."
        )
    return DataError(
        f"{owner} needs labels of 2 classes; the data have {clients.classes}: {', '.join(listed)}. "
        f"Write classes that are the same alike. {others}"
    )


def numbers_for_classes(owner: str, others: str) -> DataError:
    """The error on the labels of a regression, as whole numbers are too where they are floats."""
    return DataError(
        f"{owner} needs class labels; the data have numbers to predict. For classes pass integers, "
        f"such as y.astype(int), or words. {others}"
    )


def _some(names: list[str], clients: int) -> str:
    if len(names) == clients:
        return "everywhere"
    more = len(names) - _MOST_CLIENTS
    return ", ".join(names[:_MOST_CLIENTS]) + (f" and {more} more" if more > 0 else "")
