"""What an imported network costs beside the same network of `fl.models`: a ratio of times.

    python -m benchmarks.imported [--rounds 5] [--repeats 7] [--out FILE]

A perceptron, a convolutional network and a transformer, written in PyTorch and imported, and the
same from `fl.models`: ten clients, 20 steps of batch 32 a round. Runs take turns, and the ratio is
that of the medians. Prints one JSON line each. Needs torch.
"""

import argparse
import itertools
import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedloom as fl

CLIENTS, ROWS, STEPS, BATCH, CLASSES = 10, 200, 20, 32, 10
WORDS, LENGTH, WIDTH = 500, 32, 64


class Pair(NamedTuple):
    """A network in both forms, and rows for it."""

    module: Any
    network: fl.models.Model
    x: np.ndarray


def perceptron() -> Pair:
    """Two hidden layers."""
    from torch import nn

    sizes = (784, 200, 200)
    hidden = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(sizes)]
    module = nn.Sequential(*sum(hidden, ()), nn.Linear(200, CLASSES))
    x = np.random.default_rng(0).random((ROWS, 784), np.float32)
    return Pair(module, fl.models.MLP(hidden=(200, 200)), x)


def convolutional() -> Pair:
    """Two convolutions with pooling."""
    from torch import nn

    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
    )
    x = np.random.default_rng(0).random((ROWS, 28, 28, 1), np.float32)
    return Pair(module, fl.models.CNN(channels=(16, 32), hidden=(128,)), x)


def transformer() -> Pair:
    """Two blocks over 32 words."""
    import torch
    from torch import nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.places = nn.Parameter(torch.randn(LENGTH, WIDTH))
            layer = nn.TransformerEncoderLayer(
                *(WIDTH, 4, 4 * WIDTH, 0.0, "gelu"), batch_first=True, norm_first=True
            )
            self.blocks = nn.TransformerEncoder(
                layer, 2, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False
            )
            self.output = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.output(self.blocks(self.words(x) + self.places).mean(1))

    x = np.random.default_rng(0).integers(1, WORDS, (ROWS, LENGTH))
    own = fl.models.Transformer(vocabulary=WORDS, width=WIDTH, heads=4, blocks=2)
    return Pair(Reader(), own, x)


NETWORKS = {
    "perceptron": perceptron,
    "convolutional": convolutional,
    "transformer": transformer,
}


def seconds(model: fl.models.Model, x: np.ndarray, rounds: int) -> float:
    """Of so many rounds, once compiled."""
    labels = np.random.default_rng(1).integers(0, CLASSES, ROWS)
    clients = fl.data.from_arrays([(x, labels)] * CLIENTS)
    result = fl.simulate(
        fl.algorithms.FedAvg(lr=0.01, local_steps=STEPS),
        fl.problems.Supervised(model),
        clients,
        rounds=rounds,
        batch_size=BATCH,
        eval_every=rounds,
        metrics=(),
        progress=False,
    )
    return float(result.final["seconds"])


def main() -> None:
    """Measure and print."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    chosen = parser.parse_args()
    for name in chosen.networks:
        pair = NETWORKS[name]()
        example = torch.from_numpy(pair.x[:2])
        example = example.permute(0, 3, 1, 2) if example.ndim == 4 else example
        imported = fl.models.from_torch(pair.module, example)
        taken: dict[str, list[float]] = {"imported": [], "own": []}
        for _ in range(chosen.repeats):
            taken["imported"].append(seconds(imported, pair.x, chosen.rounds))
            taken["own"].append(seconds(pair.network, pair.x, chosen.rounds))
        middle = {way: statistics.median(found) for way, found in taken.items()}
        line = {"network": name, "ratio": middle["imported"] / middle["own"], "seconds": taken}
        print(json.dumps(line), flush=True)
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
