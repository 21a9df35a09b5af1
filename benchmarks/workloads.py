"""The three workloads, as plain arrays: every contestant computes the same rounds on them.

W1  logistic regression, a9a-sized: 20 clients x 1628 rows x 123 features, one class a client;
    all clients, 50 local steps of batch 40.
W2  a small CNN on 28 x 28 images (conv 3x3x16, pool, conv 3x3x32, pool, dense 128, dense 10):
    100 clients x 300, 10 a round, 20 steps of batch 32.
W3  logistic regression: 10,000 clients x 20 rows x 123 features, 100 a round, 5 steps of batch 10.

And those for an accelerator, with the networks of `contestants/networks.py`:

W2x100     W2 with all clients in every round
CIFAR-10   the size of pfl's benchmark: 1000 clients x 50 images of 32 x 32 x 3, 50 a round, one
           pass in batches of 10
ResNet-20  100 clients x 300 such images, 10 a round, 10 steps of batch 32
"""

from typing import NamedTuple

import numpy as np


class Workload(NamedTuple):
    name: str
    clients: int
    rows: int
    features: tuple[int, ...]
    cohort: int
    steps: int
    batch: int
    lr: float
    rounds: int  # how many make a measurement

    @property
    def is_image(self) -> bool:
        return len(self.features) == 3


WORKLOADS = {
    "W1": Workload("W1", 20, 1628, (123,), 20, 50, 40, 0.1, 3000),
    "W2": Workload("W2", 100, 300, (28, 28, 1), 10, 20, 32, 0.05, 12),
    "W3": Workload("W3", 10_000, 20, (123,), 100, 5, 10, 0.1, 20_000),
}
ACCELERATED = {
    "W2x100": WORKLOADS["W2"]._replace(name="W2x100", cohort=100),
    "CIFAR-10": Workload("CIFAR-10", 1000, 50, (32, 32, 3), 50, 5, 10, 0.1, 100),
    "ResNet-20": Workload("ResNet-20", 100, 300, (32, 32, 3), 10, 10, 32, 0.1, 10),
}
DENSITY = 0.11  # of a9a's binary features


def arrays(w: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Features (clients, rows, ...) and labels (clients, rows): 0/1, or 0 to 9 for images."""
    rng = np.random.default_rng(0)
    if w.is_image:
        x = rng.random((w.clients, w.rows, *w.features), np.float32)
        return x, rng.integers(0, 10, (w.clients, w.rows))
    x = (rng.random((w.clients, w.rows, *w.features), np.float32) < DENSITY).astype(np.float32)
    if w.name == "W1":
        return x, np.repeat(np.arange(w.clients)[:, None] % 2, w.rows, axis=1)
    return x, rng.integers(0, 2, (w.clients, w.rows))
