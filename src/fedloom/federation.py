"""Problem and clients brought together: what the hub may know, and what each client holds."""

import dataclasses
from typing import Any

import jax
import numpy as np

from fedloom.data.clients import Clients
from fedloom.layout import Layout, layout_of
from fedloom.objective import prox
from fedloom.problems.base import Problem
from fedloom.protocol import static
from fedloom.rows import Rows, Spec, Store, store

Array = Any
Tree = Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Fed:
    """What the hub may know: how many clients there are, how they count, and the regulariser."""

    problem: Problem
    weights: Array  # (n,) the weights of the clients in the objective; they sum to one
    n: int = static()
    layout: Layout = static()
    spec: Spec = static()

    def init_model(self, key: Array) -> Array:
        """A fresh model, as a vector."""
        return self.layout.ravel(self.problem.init(key, self.spec))

    def prox(self, v: Array, step: Array) -> Array:
        """The proximal map of step * g."""
        return prox(self.problem.regulariser, self.layout, v, step)

    def regularisation(self, w: Array) -> Array:
        """The value g(w)."""
        return self.problem.regulariser.value(self.layout.unravel(w))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Group:
    """Clients whose states and models have the same shapes, so that they can be mapped together."""

    problem: Problem
    train: Store
    test: Store | None
    layout: Layout = static()
    batch_size: int | None = static()
    members: tuple[int, ...] | None = static()  # None: all clients of the federation, in order

    @property
    def size(self) -> int:
        """How many clients the group has."""
        return len(self.train.offsets)

    def objective(self, index: Array | int) -> Any:
        """The oracles of one client of the group."""
        return self.problem.objective(self.layout, self.train.share(index), self.batch_size)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Federation:
    """The hub's knowledge and the groups of clients."""

    fed: Fed
    groups: tuple[Group, ...]


def assemble(
    problem: Problem, clients: Clients, batch_size: int | None, precision: str
) -> Federation:
    """Bring a problem and clients together."""
    fed = know(problem, clients, precision)
    train = _cast(clients.train, precision)
    test = None if clients.test is None else _cast(clients.test, precision)
    groups = []
    for variant, members in problem.groups(clients):
        chosen = np.arange(len(clients)) if members is None else np.asarray(members)
        held_out = None
        if test is not None:
            held_out = store(test, clients.test_sizes[chosen], clients.test_offsets[chosen])
        groups.append(
            Group(
                variant,
                store(train, clients.sizes[chosen], clients.offsets[chosen]),
                held_out,
                fed.layout,
                batch_size,
                None if members is None else tuple(int(i) for i in members),
            )
        )
    return Federation(fed, tuple(groups))


def know(problem: Problem, clients: Clients, precision: str) -> Fed:
    """What the hub learns of the clients before the first round: their number and sizes."""
    spec = Spec(clients.train.x.shape[1:], clients.classes, precision)
    layout = layout_of(lambda: problem.init(jax.random.key(0), spec))
    weights = np.asarray(problem.client_weights(clients.sizes), precision)
    return Fed(problem, weights, len(clients), layout, spec)


def alone(
    problem: Problem, clients: Clients, batch_size: int | None, precision: str
) -> list[Group]:
    """Each client by itself, with nothing but its own rows: what a site of a network holds."""
    layout = know(problem, clients, precision).layout
    variants: dict[int, Problem] = {}
    for variant, members in problem.groups(clients):
        variants |= dict.fromkeys(range(len(clients)) if members is None else members, variant)

    def own(rows: Rows | None) -> Store | None:
        return None if rows is None else store(_cast(rows, precision), np.array([len(rows.y)]))

    return [
        Group(variants[i], own(clients.of(i)), own(clients.test_of(i)), layout, batch_size, (i,))  # type: ignore[arg-type]
        for i in range(len(clients))
    ]


def _cast(rows: Rows, precision: str) -> Rows:
    """Floating point numbers at the run's precision; classes and tokens as 32-bit integers."""

    def cast(array: np.ndarray) -> np.ndarray:
        whole = np.issubdtype(array.dtype, np.integer)
        return np.ascontiguousarray(array, np.int32 if whole else precision)

    return Rows(cast(np.asarray(rows.x)), cast(np.asarray(rows.y)))
