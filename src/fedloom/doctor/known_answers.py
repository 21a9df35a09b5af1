"""Problems of every family whose answers are known, solved on every device there is.

The answers are in `answers.json`. The tests recompute them from transcriptions of the papers'
listings in plain NumPy, so they do not depend on this package, on JAX or on a device.
"""

import dataclasses
import importlib.resources
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import algorithms, data, models, problems
from fedloom.data.parties import Holders
from fedloom.doctor.environment import every_device
from fedloom.doctor.finding import RIGHT, WRONG, Finding
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.pytrees import register
from fedloom.simulator.run import simulate

ROUNDS, BATCH = 4, 4
TOLERANCE = {"float64": 1e-10, "float32": 1e-3}  # relative to 1 + |answer|
_ADVICE = "please report this table: this device or this JAX gives wrong numbers"
_LOOK_ALIKES = 60
_DOUBLE = ("float64",)  # where draws depend on the precision, or one precision says enough
_ROWS = {"float64": 16_385, "float32": 32_769}  # from which jaxlib 0.10.2 was wrong


class Task(NamedTuple):
    """A method on a problem over clients, all small."""

    family: str
    algorithm: Algorithm
    problem: Problem
    clients: Holders
    precisions: tuple[str, ...] = ("float64", "float32")


def rows(classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Unlike rows of four clients, by sines in the place of a generator that may change."""
    made = []
    for i, size in enumerate((6, 9, 6, 9)):
        x = i / 2 + np.sin(1.0 + 7 * i + 2.3 * np.arange(3 * size)).reshape(size, 3)
        made.append((x, (np.arange(size) * (i + 1) + i // 2) % classes))
    return made


def columns() -> tuple[list[np.ndarray], np.ndarray]:
    """Columns of the same eight rows at three parties, and the labels."""
    blocks = [np.sin(1.0 + 1.7 * np.arange(8 * w) + w).reshape(8, w) for w in (2, 3, 1)]
    return blocks, np.cos(0.9 * np.arange(8))


def tasks() -> dict[str, Task]:
    """The tasks, by the key of their method."""
    two, three = data.from_arrays(rows(2)), data.from_arrays(rows(3))
    smooth = problems.Logistic(l2=0.1)
    sparse = problems.Logistic(l2=0.1, regulariser=problems.L1(0.05))
    within = problems.Logistic(l2=0.1, regulariser=problems.Ball(0.15))
    ranking = problems.AUC(regulariser=problems.L1(0.02))
    own = (models.MLP((3,)), models.MLP((2,)))
    networks = problems.Personal(models.MLP((2,)), own, bits=(2, 32), keep=(-1,), l2=0.1)
    bits = algorithms.Quantisation(pull=0.05, centre_lr=0.05)
    local: dict[str, Any] = {"lr": 0.3, "local_steps": 3, "cohort": 3}
    return {
        "fedavg": Task("averaging", algorithms.FedAvg(**local), smooth, two),
        "scaffold": Task("averaging", algorithms.Scaffold(**local), smooth, two, _DOUBLE),
        "decoupled_prox": Task(
            "composite", algorithms.DecoupledProx(lr=0.3, local_steps=3), sparse, two
        ),
        "ffmdr": Task(
            "minimax",
            algorithms.FFMDR(beta=0.5, solver=algorithms.SGDA(lr=0.1), cohort=3),
            ranking,
            two,
            _DOUBLE,
        ),
        "drfa": Task("robust", algorithms.DRFA(weight_lr=0.2, **local), within, two, _DOUBLE),
        "quped": Task(
            "personal",
            algorithms.QuPeD(common_lr=0.3, guidance=0.4, quantise=bits, **local),
            networks,
            three,
            _DOUBLE,
        ),
        "egvfl": Task(
            "vertical",
            algorithms.EGVFL(step=0.1),
            problems.Vertical(l2=0.5),
            data.from_parties(*columns()),
        ),
    }


def answers() -> dict[str, list[float]]:
    """The known answers: for each task, the numbers of the model after the last round."""
    file = importlib.resources.files("fedloom.doctor") / "answers.json"
    return json.loads(file.read_text(encoding="utf-8"))


def solve(task: Task, precision: str) -> np.ndarray:
    """The model that a task leaves, as one vector."""
    result = simulate(
        task.algorithm,
        task.problem,
        task.clients,
        rounds=ROUNDS,
        batch_size=BATCH,
        eval_every=ROUNDS,
        metrics=(),
        precision=precision,
        devices=1,
        progress=False,
    )
    if result.status == "interrupted":  # which is no fault of the device
        raise KeyboardInterrupt
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(result.model)])


def solve_on_every_device(
    heard: Callable[[str], None] = lambda text: None,
) -> Iterator[Finding]:
    """Compare each device's answers with the known ones; `heard` is called with what comes next."""
    known = answers()
    for device in every_device():
        with jax.default_device(device):
            for precision in TOLERANCE:
                for key, task in tasks().items():
                    if precision not in task.precisions:
                        continue
                    heard(f"{key} on {device} in {precision}")
                    error = _error(solve(task, precision), np.asarray(known[key]))
                    yield _verdict(
                        task.family, f"{key}, {device}, {precision}", error, TOLERANCE[precision]
                    )
                heard(f"compiler of {device} in {precision}")
                yield _verdict(
                    "compiler", f"mapped sum, {device}, {precision}", _sums(precision), 0
                )
            heard(f"caches of {device}")
            yield _caches(device)


def _error(got: np.ndarray, answer: np.ndarray) -> float:
    if got.shape != answer.shape:
        return float("inf")
    return float(np.max(np.abs(got - answer) / (1 + np.abs(answer))))


def _verdict(section: str, name: str, error: float, tolerance: float) -> Finding:
    if error <= tolerance:
        return Finding(section, name, f"off by {error:.1e}")
    return Finding(section, name, f"off by {error:.1e}, not {tolerance:g}", WRONG, _ADVICE)


def _sums(precision: str) -> float:
    """How far a mapped sum over many rows, compiled, is from what it must be."""
    with jax.enable_x64(precision == "float64"):
        i = jnp.arange(_ROWS[precision], dtype=precision)
        x = jnp.stack((i, jnp.zeros_like(i), jnp.zeros_like(i)), axis=1)
        identity = jnp.eye(3, dtype=precision)
        squares = jax.jit(jax.vmap(lambda row: jnp.sum((identity @ row) ** 2)))(x)
        return float(jnp.abs(squares[-1] - i[-1] ** 2))


def _caches(device: Any) -> Finding:
    """Whether classes that look alike each get their own program."""
    program = jax.jit(lambda node: node.x + type(node).number)
    wrong = 0
    for number in range(_LOOK_ALIKES):
        cls: Any = dataclasses.make_dataclass("LookAlike", [("x", float)], frozen=True)
        cls.number = float(number)
        register(cls, ["x"])
        wrong += float(program(cls(0.0))) != number
    found = f"{wrong} of {_LOOK_ALIKES} classes got the program of another"
    verdict, advice = (WRONG, _ADVICE) if wrong else (RIGHT, "")
    return Finding("caches", f"look-alike classes, {device}", found, verdict, advice)
