"""Why QuPeL at 1 bit collapses on MNIST: studies for `python -m benchmarks.slopes`.

On the 50 clients of `fedloom reproduce personal-mnist`, or in a size for a CPU on five of them with
half of their rows, where clients fall to guessing as well. QuPeL's centres move by the slope of two
terms, the loss f(Q_c(x)) and the closeness (lp / 2) |Q_c(x) - w|^2. Each is left out in turn, and
the closeness is made a tenth of what the paper states.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

import fedloom as fl
from benchmarks.slope_points import Point, Study
from fedloom.algorithms import QuPeL
from fedloom.algorithms.personal.quantisation import (
    Quantisation,
    QuantisedModel,
    freeze,
    gradient,
    models,
    move,
)
from fedloom.data.clients import Clients
from fedloom.errors import DivergedError
from fedloom.local import repeat, steps_of
from fedloom.oracles import PersonalOracle
from fedloom.protocol import algorithm
from fedloom.types import Array

SEEDS = range(3)
MEASURED = "accuracy, mean over clients; gap: between a layer's two centres, mean over layers"


class _ByOneTerm(QuPeL):
    """QuPeL, with centres that move by the slope of one term of the objective."""

    of_loss: ClassVar[bool]  # whether it is the loss, or else the closeness

    def train(
        self, client: QuantisedModel, model: Array, f: PersonalOracle, key: Array, /
    ) -> tuple[QuantisedModel, Array]:
        """K steps on x, c and w, as QuPeL's but for the centres."""

        def step(state: tuple[QuantisedModel, Array], key: Array) -> tuple[QuantisedModel, Array]:
            own, w = state
            batch = f.draw(key)

            def loss(x: Array) -> Array:
                return f.own.grad_on(x, batch)

            def closeness(x: Array) -> Array:
                return self.closeness * (x - w)

            own = freeze(self.quantise, f, own)
            uphill = gradient(self.quantise, f, own, lambda x: loss(x) + closeness(x))
            term = loss if self.of_loss else closeness
            own = move(self.quantise, f, own, term, uphill, jnp.asarray(self.lr))
            apart = sum((w - x for x in models(self.quantise, f, own)), jnp.zeros_like(w))
            return own, w - self.common_lr * self.closeness * apart

        begun = self._begun(client, model, f)
        client, w = repeat(step, (begun, model), key, steps_of(self.local_steps, f))
        return client, w - model


@algorithm
class ByLoss(_ByOneTerm):
    """QuPeL, with centres that move by the loss alone."""

    of_loss: ClassVar[bool] = True


@algorithm
class ByCloseness(_ByOneTerm):
    """QuPeL, with centres that move by the closeness alone."""

    of_loss: ClassVar[bool] = False


class Size(NamedTuple):
    """How much of Table 8's task there is."""

    clients: int
    share: float  # of each client's rows
    rounds: int


def _clients(size: Size) -> Clients:
    """The first clients of Table 8, with the first of their rows."""
    whole = fl.data.partition(
        fl.data.load("mnist"), "label", clients=50, classes_each=3, normalise=True
    )

    def first(rows: Any) -> tuple[Any, Any]:
        count = int(size.share * len(rows.y))
        return rows.x[:count], rows.y[:count]

    numbers = range(size.clients)
    made = fl.data.from_arrays(
        [first(whole.of(i)) for i in numbers], test=[first(whole.test_of(i)) for i in numbers]
    )
    return dataclasses.replace(made, labels=whole.labels)


def _collapse(size: Size) -> Iterator[Point]:
    """The mean accuracy over clients as rounds go on, and the gap between centres at the end."""
    quantise = Quantisation(bits=1, pull=1e-6, pull_growth=1.0101, freeze_after=43)
    methods = {
        "as stated": QuPeL(lr=0.1, quantise=quantise),
        "closeness 0.02": QuPeL(lr=0.1, quantise=quantise, closeness=0.02),
        "centres by the loss alone": ByLoss(lr=0.1, quantise=quantise),
        "centres by the closeness alone": ByCloseness(lr=0.1, quantise=quantise),
    }
    problem = fl.problems.Personal(fl.models.CNN1(initialisation="torch"))
    clients = _clients(size)
    for seed in SEEDS:
        for title, method in methods.items():
            try:
                run = fl.simulate(
                    method, problem, clients, rounds=size.rounds, batch_size=25, seed=seed,
                    metrics=("accuracy",), eval_every=size.rounds // 10, progress=False,
                )  # fmt: skip
            except DivergedError as error:
                run = error.result
            for row in run.rows:
                yield Point(title, row["round"], seed, float(row["accuracy"]))
            (held,) = run.state.clients
            gap = float(np.diff(held.centres, axis=-1).mean())
            yield Point(f"{title}: gap", run.final["round"], seed, gap)


STUDIES = {
    name: Study("round", MEASURED, None, functools.partial(_collapse, size))
    for name, size in {
        "personal-collapse": Size(5, 0.5, 120),
        "personal-collapse-whole": Size(50, 1.0, 240),  # a GPU's work
    }.items()
}
