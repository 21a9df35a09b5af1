"""The tiny federations on which methods are held to the laws, one for each kind of problem."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.algorithms.entry import Kind
from fedloom.data.clients import Clients, from_arrays
from fedloom.data.parties import Holders, Parties, from_parties
from fedloom.errors import ParameterError
from fedloom.models import MLP
from fedloom.models.base import Model
from fedloom.parameters import at_least, param, parametrised
from fedloom.problems import AUC, L1, Logistic, Personal, Problem, Vertical
from fedloom.protocol import Algorithm
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree


@parametrised
class Undrawn(Model):
    """A network that begins the same whoever has it, so that no law depends on who that is."""

    width: int = param(at_least(1), "width of the hidden layer")

    def init(self, key: Array, spec: Spec) -> Tree:
        """Waves in the shapes of a perceptron."""
        shapes = jax.eval_shape(lambda: MLP((self.width,)).init(key, spec))
        waves = lambda s: jnp.sin(jnp.arange(1.0, s.size + 1, dtype=s.dtype)).reshape(s.shape)  # noqa: E731
        return jax.tree.map(waves, shapes)

    def apply(self, arrays: Tree, x: Held) -> Array:
        """A perceptron's outputs."""
        return MLP((self.width,)).apply(arrays, x)


class Trial(NamedTuple):
    """A problem that suits a method, and clients with unequal numbers of unlike rows."""

    problem: Problem
    clients: Holders

    def of(self, order: Sequence[int]) -> "Trial":
        """The same federation with these clients, in this order."""
        if isinstance(self.clients, Parties):
            return self._replace(clients=self.clients.in_order(order))
        problem: Any = self.problem
        what_clients_have = {}
        for name in ("own", "bits"):
            if isinstance(getattr(problem, name, None), tuple):
                what_clients_have[name] = tuple(getattr(problem, name)[i] for i in order)
        names = [self.clients.names[i] for i in order]
        return Trial(
            dataclasses.replace(problem, **what_clients_have),
            from_arrays([self.clients.of(i) for i in order], names=names),
        )

    def groups(self) -> list[list[int]]:
        """The clients of each group, in the order in which their states are stacked."""
        everyone = list(range(len(self.clients)))
        if isinstance(self.clients, Parties):
            return [[i] for i in everyone]
        groups = self.problem.groups(self.clients)
        return [everyone if members is None else list(members) for _, members in groups]


def kind_for(method: Algorithm | type[Algorithm]) -> Kind:
    """The kind of federation that suits a method, by what it takes."""
    kind = "composite" if method.takes == "smooth" and method.takes_regulariser else method.takes
    for known in _TRIALS:
        if kind == known:
            return known
    name = method.__name__ if isinstance(method, type) else type(method).__name__
    raise ParameterError(
        f"{name} takes {method.takes!r} problems, for which there is no small federation here. "
        f"Pass problem= and clients= of your own."
    )


@functools.cache
def trial(kind: Kind) -> Trial:
    """The federation of a kind."""
    return _TRIALS[kind](np.random.default_rng(7))


def _rows(rng: np.random.Generator) -> Clients:
    sizes = (6, 9, 6, 9)
    return from_arrays(
        [(rng.normal(i / 2, 1, (m, 3)), rng.integers(0, 2, m)) for i, m in enumerate(sizes)]
    )


def _networks(rng: np.random.Generator) -> Trial:
    """Two architectures, one of them quantised."""
    own, bits = (Undrawn(3), Undrawn(2)) * 2, (2, 32) * 2
    return Trial(Personal(MLP((2,)), own, bits, keep=(-1,), l2=0.1), _rows(rng))


def _parties(rng: np.random.Generator) -> Trial:
    _rows(rng)  # so that these numbers come after those of the other trials
    y = rng.normal(size=10)
    blocks = [rng.normal(size=(10, width)) / 3 for width in (1, 3, 2, 1)]
    return Trial(Vertical(l2=0.1), from_parties(blocks, y))


_TRIALS: dict[Kind, Callable[[np.random.Generator], Trial]] = {
    "smooth": lambda rng: Trial(Logistic(l2=0.1), _rows(rng)),
    "composite": lambda rng: Trial(Logistic(l2=0.1, regulariser=L1(0.05)), _rows(rng)),
    "saddle": lambda rng: Trial(AUC(regulariser=L1(0.02)), _rows(rng)),
    "personal": _networks,
    # One architecture and bit-width, so that laws compile faster.
    "personal-alike": lambda rng: Trial(
        Personal(MLP((2,)), Undrawn(2), 1, keep=(-1,), l2=0.1), _rows(rng)
    ),
    "vertical": _parties,
}
