"""Problem and clients brought together: what the hub may know, and what each client holds."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import rows as flat
from fedloom.data.clients import Clients
from fedloom.layout import Layout, layout_of
from fedloom.objective import prox
from fedloom.problems.base import Problem
from fedloom.rows import Rows, Spec, Store

Array = Any
Tree = Any


def _static(**kwargs: Any) -> Any:
    return dataclasses.field(metadata={"static": True}, **kwargs)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Fed:
    """What the hub may know: how many clients there are, how they count, and the regulariser."""

    problem: Problem
    weights: Array  # (n,) the weights of the clients in the objective; they sum to one
    n: int = _static()
    layout: Layout = _static()
    spec: Spec = _static()

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
    layout: Layout = _static()
    batch_size: int | None = _static()
    members: tuple[int, ...] | None = _static()  # None: all clients of the federation, in order

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
    spec = Spec(clients.train.x.shape[1:], clients.classes, precision)
    layout = layout_of(lambda: problem.init(jax.random.key(0), spec))
    fed = Fed(
        problem,
        jnp.asarray(problem.client_weights(clients.sizes), precision),
        len(clients),
        layout,
        spec,
    )
    train = _cast(clients.train, precision)
    test = None if clients.test is None else _cast(clients.test, precision)
    everyone = np.arange(len(clients))
    groups = []
    for variant, members in problem.groups(clients):
        alone = members is None
        chosen = everyone if alone else np.asarray(members)
        groups.append(
            Group(
                variant,
                flat.store(train, clients.sizes[chosen], clients.offsets[chosen]),
                None
                if test is None
                else flat.store(test, clients.test_sizes[chosen], clients.test_offsets[chosen]),
                layout,
                batch_size,
                None if alone else tuple(int(i) for i in chosen),
            )
        )
    return Federation(fed, tuple(groups))


def _cast(rows: Rows, precision: str) -> Rows:
    """Floating point numbers at the run's precision; classes and tokens as 32-bit integers."""

    def cast(array: np.ndarray) -> np.ndarray:
        whole = np.issubdtype(array.dtype, np.integer)
        return np.ascontiguousarray(array, np.int32 if whole else precision)

    return Rows(cast(np.asarray(rows.x)), cast(np.asarray(rows.y)))
