"""Figure 2 of the paper on vertical learning, in a size for a CPU: a frozen network's last layer.

A small convolutional network is trained on 4,000 pictures of clothes (Fashion-MNIST) and frozen.
1,000 digits (MNIST) are cut into five upright strips, one for each party, which passes its strip
through the network without its last layer. Over what comes out, a new last layer is learned by the
parties with the softmax loss, by theory's steps, with the sum and with the mean over rows, of which
gradient methods do not take notice. In the paper the network is a ResNet18 of ImageNet and the
pictures are CIFAR-10's, which take a graphics card.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedloom as fl
from benchmarks.slope_points import Point, Study
from fedloom.algorithms import EGVFL, FedAvg, SharingADMM, VerticalAGD, VerticalGD
from fedloom.protocol import Algorithm
from fedloom.types import Array

ROUNDS = 300
SHOWN = (0, 10, 20, 50, 100, 200, 300)
CHANNELS = (8, 16)
BANDS = 4  # of rows, over which a strip's outputs are averaged
METHODS: dict[str, Algorithm] = {
    "EGVFL, beta-trick": EGVFL(beta_trick=True),
    "EGVFL": EGVFL(),
    "ADMM": SharingADMM(),
    "ADMM, beta-trick": SharingADMM(beta_trick=True),
}
OF_ANY_SCALE: dict[str, Algorithm] = {"GD": VerticalGD(), "AGD": VerticalAGD()}


def _filters(key: Array, spec: Any) -> Any:
    """Two layers of 3 x 3 filters and a last layer, begun as He et al. have it."""
    first, second = CHANNELS
    keys = jax.random.split(key, 3)
    width = BANDS * second
    return {
        "first": jax.random.normal(keys[0], (3, 3, 1, first)) * (2 / 9) ** 0.5,
        "second": jax.random.normal(keys[1], (3, 3, first, second)) * (2 / (9 * first)) ** 0.5,
        "last": jax.random.normal(keys[2], (width, spec.classes)) * (1 / width) ** 0.5,
    }


def _features(arrays: Any, pictures: Array) -> Array:
    """What the last layer sees of pictures of any width: averages over bands of rows."""
    order = ("NHWC", "HWIO", "NHWC")
    out = jax.lax.conv_general_dilated(
        pictures, arrays["first"], (2, 2), "SAME", dimension_numbers=order
    )
    out = jax.lax.conv_general_dilated(
        jax.nn.relu(out), arrays["second"], (2, 2), "SAME", dimension_numbers=order
    )
    bands = jnp.array_split(jax.nn.relu(out), BANDS, axis=1)
    return jnp.concatenate([band.mean((1, 2)) for band in bands], axis=-1)


def _frozen() -> Any:
    """The network after 1,200 steps of plain stochastic gradients on pictures of clothes."""
    clothes = fl.data.load("fashion-mnist")
    one = fl.data.from_arrays([(clothes.x[:4000], clothes.y[:4000])])
    network = fl.models.Pair(_filters, lambda a, x: _features(a, x) @ a["last"])
    method = FedAvg(lr=0.1, local_steps=40)
    options = {"rounds": 30, "batch_size": 32, "eval_every": 30, "progress": False}
    return fl.simulate(method, fl.problems.Supervised(network), one, **options).model


def _parties() -> tuple[list[np.ndarray], np.ndarray]:
    """Features of five strips of each digit, and the digits."""
    arrays, digits = _frozen(), fl.data.load("mnist")
    strips = np.array_split(np.asarray(digits.x[:1000]), 5, axis=2)
    made = [np.asarray(jax.jit(_features)(arrays, jnp.asarray(strip))) for strip in strips]
    return made, np.asarray(digits.y[:1000])


def _points() -> Iterator[Point]:
    blocks, y = _parties()
    largest = float(np.linalg.norm(np.concatenate(blocks, axis=1), 2) ** 2)
    parties = fl.data.from_parties(blocks, y)
    for scale, rows in (("sum", 1), ("mean", len(y))):
        problem = fl.problems.Vertical(loss="softmax", mean=rows > 1, l2=largest / 1000 / rows)
        optimum = fl.reference(problem, parties)
        methods = {f"{name}, {scale}": method for name, method in METHODS.items()}
        methods |= OF_ANY_SCALE if rows == 1 else {}
        for name, method in methods.items():
            run = fl.simulate(
                method, problem, parties, rounds=ROUNDS, eval_every=10, precision="float64",
                optimum=optimum, metrics=("relative_gap",), progress=False,
            )  # fmt: skip
            values = {int(row["round"]): row["relative_gap"] for row in run.rows}
            for shown in SHOWN:
                yield Point(name, shown, 0, values[shown])


STUDIES = {"vertical-head": Study("iteration", "relative gap", None, _points, log=True)}
