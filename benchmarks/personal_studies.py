"""Studies of QuPeD's paper for `python -m benchmarks.slopes`, on digits, in a size for a CPU.

Ten clients with three classes each, as in `fedloom reproduce personal-digits`. Per-FedAvg's model
is trained as there, and clients then adapt it by more and longer steps than the one of 0.001 that
the paper states. QuPeL's middle layer at 1 bit has more and more weights, begun as PyTorch does, on
pixels of mean 0 and variance 1, as where it collapses on MNIST.
"""

from collections.abc import Iterator

import jax

import fedloom as fl
from benchmarks.slope_points import Point, Study
from fedloom.algorithms import FedAvg, LocalTraining, PerFedAvg, QuPeL
from fedloom.algorithms.personal.quantisation import Quantisation
from fedloom.errors import DivergedError
from fedloom.oracles import SmoothOracle
from fedloom.parameters import at_least, param, positive
from fedloom.protocol import Algorithm, algorithm
from fedloom.types import Array, Nothing

SEEDS = range(3)


@algorithm
class Adapted(PerFedAvg):
    """Per-FedAvg whose clients adapt by several full gradient steps of another length."""

    adapting_steps: int = param(at_least(1), "steps of adaptation", default=1)
    adapting_lr: float = param(positive, "their length", default=0.001)

    def deployed(self, model: Array, client: Nothing, f: SmoothOracle, /) -> Array:
        """The model after these steps."""
        return jax.lax.fori_loop(
            0, self.adapting_steps, lambda _, w: w - self.adapting_lr * f.full_grad(w), model
        )


def _accuracy(method: Algorithm, hidden: tuple[int, ...], seed: int, like_torch: bool) -> float:
    """The mean over clients of the accuracy on their own test rows after 40 rounds."""
    model = fl.models.MLP(hidden=hidden, initialisation="torch" if like_torch else "he")
    clients = fl.data.partition(
        fl.data.load("digits"), "label", clients=10, classes_each=3, test_fraction=0.25,
        normalise=like_torch,
    )  # fmt: skip
    try:
        run = fl.simulate(
            method, fl.problems.Personal(model), clients, rounds=40, batch_size=25, seed=seed,
            metrics=("accuracy",), progress=False,
        )  # fmt: skip
    except DivergedError as error:
        run = error.result
    return float(run.final["accuracy"])


def _adaptation() -> Iterator[Point]:
    hidden = (32, 16)
    for seed in SEEDS:
        for title, method in (("FedAvg", FedAvg(lr=0.1)), ("local", LocalTraining(lr=0.1))):
            yield Point(title, 1, seed, _accuracy(method, hidden, seed, False))
        for length in (0.001, 0.01, 0.1):
            for steps in (1, 10, 100):
                method = Adapted(lr=0.1, adapting_steps=steps, adapting_lr=length)
                value = _accuracy(method, hidden, seed, False)
                yield Point(f"Per-FedAvg, adapted by steps of {length:g}", steps, seed, value)


def _centres() -> Iterator[Point]:
    for seed in SEEDS:
        for first, second in ((32, 16), (64, 32), (128, 64), (256, 128)):
            for title, centre_lr in (("as stated", 1e-4), ("centres held still", 0.0)):
                quantise = Quantisation(
                    bits=1, pull=1e-6, pull_growth=1.0101, freeze_after=43, centre_lr=centre_lr
                )
                value = _accuracy(QuPeL(lr=0.1, quantise=quantise), (first, second), seed, True)
                yield Point(f"QuPeL, 1 bit, {title}", first * second, seed, value)


STUDIES = {
    "personal-adaptation": Study(
        "steps of adaptation", "accuracy, mean over clients", None, _adaptation
    ),
    "personal-centres": Study(
        "weights in the quantised layer", "accuracy, mean over clients", None, _centres
    ),
}
