"""Batched NumPy: all clients of the cohort in one array."""

import numpy as np

from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None):
    if w.is_image:
        raise SystemExit("no NumPy contestant for networks")
    x, y = arrays(w)
    sign = np.where(y > 0, 1.0, -1.0).astype(np.float32)
    rng = np.random.default_rng(1)
    model = np.zeros(w.features, np.float32)

    def run(rounds: int) -> None:
        nonlocal model
        for _ in range(rounds):
            everyone = w.cohort == w.clients
            ids = np.arange(w.clients) if everyone else rng.choice(w.clients, w.cohort, False)
            v = np.repeat(model[None], w.cohort, 0)
            for _ in range(w.steps):
                rows = rng.integers(0, w.rows, (w.cohort, w.batch))
                xb, sb = x[ids[:, None], rows], sign[ids[:, None], rows]
                margin = sb * (xb @ v[:, :, None])[..., 0]
                slope = -sb / (1 + np.exp(margin)) / w.batch
                v -= w.lr * (slope[:, None, :] @ xb)[:, 0]
            model = v.mean(0)

    return run


if __name__ == "__main__":
    contest(prepare)
