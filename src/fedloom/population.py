"""A federation: a problem and clients brought together, as the hub and each client see them."""

import dataclasses
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from fedloom.data import gaps
from fedloom.data.clients import Clients
from fedloom.data.parties import Holders, Parties
from fedloom.errors import DataError, ParameterError
from fedloom.hub_view import Fed as Fed
from fedloom.hub_view import LabelParty as LabelParty
from fedloom.layout import Layout
from fedloom.on_disk import OnDisk, check_fits
from fedloom.operators.blocks import Block, block
from fedloom.oracles import AnyOracle
from fedloom.party import PartyObjective
from fedloom.problems.base import Problem
from fedloom.problems.vertical import LABEL_PARTY, Vertical
from fedloom.pytrees import abstract, pytree, static
from fedloom.rows import Rows, Spec, Store, store
from fedloom.types import Array, Held


@pytree
class Group:
    """Clients whose states and models have the same shapes, so that they can be mapped together."""

    problem: Problem
    train: Store
    test: Store | None
    layout: Layout = static()
    batch_size: int | None = static()
    members: tuple[int, ...] | None = static()  # None: all clients of the federation, in order
    # Whose copy this is, where a crew of threads computes together.
    rank: Held | None = dataclasses.field(default=None, repr=False)

    @property
    def size(self) -> int:
        """How many clients the group has."""
        return len(self.train.offsets)

    def objective(self, index: Array | int) -> AnyOracle:
        """The oracles of one client of the group."""
        return self.problem.objective(self.layout, self.train.client(index), self.batch_size)

    @property
    def measured(self) -> Store:
        """The rows on which the clients are measured."""
        return self.train if self.test is None else self.test


@pytree
class Party:
    """A group of one: a party of a vertical federation, with its own columns of all rows."""

    problem: Vertical
    train: Block
    test: Block | None
    layout: Layout = static()
    classes: int = static()
    members: tuple[int, ...] = static()
    batch_size: int | None = static(default=None)

    @property
    def size(self) -> int:
        """A party is alone in its group."""
        return 1

    def objective(self, index: Array | int) -> PartyObjective:
        """The oracles of the party."""
        laid_out = (self.layout, self.train, self.classes)
        return PartyObjective(self.problem, *laid_out, self.batch_size)


@pytree
class Federation:
    """The hub's knowledge and the groups of clients."""

    fed: Fed
    groups: tuple[Any, ...]  # of Group, or of Party

    @property
    def label_party(self) -> LabelParty:
        """The hub of a vertical federation."""
        assert isinstance(self.fed, LabelParty)
        return self.fed


def assemble(
    problem: Problem, clients: Holders, batch_size: int | None, precision: str
) -> Federation:
    """Bring a problem and clients together."""
    if problem.kind != "table" and not clients.is_complete():  # gaps of raw tables are counted
        gaps.refuse(clients)
    fed = know(problem, clients, precision, batch_size)
    if isinstance(clients, Parties):
        return Federation(fed, tuple(alone(problem, clients, batch_size, precision)))
    train = _cast(clients.train, precision)
    test = None if clients.test is None else _cast(clients.test, precision)
    groups = []
    for variant, members in fed.problem.groups(clients):
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


def know(problem: Problem, clients: Holders, precision: str, batch_size: int | None = None) -> Fed:
    """What the hub learns of the clients before the first round: their number and sizes.

    The hub of parties draws the rows of a batch, for all of them.
    """
    if isinstance(clients, Parties):
        return _know_parties(vertical(problem), clients, precision, batch_size)
    if isinstance(problem, Vertical):
        raise ParameterError(
            "a vertical problem needs parties with columns of the same rows; got clients with "
            "rows of their own. Use fl.data.partition(dataset, 'features', parties=...) or "
            "fl.data.from_parties."
        )
    _check_symbols(problem, clients)
    problem = problem.agree(clients)
    spec = Spec(clients.train.x.shape[1:], clients.classes, precision)
    layout = problem.layout(spec)
    if layout.size == 0:
        raise DataError(
            f"{type(problem).__name__}: the model must have at least one number; got none, for the "
            f"rows have features of shape {spec.features}. Give the clients features, or the "
            f"problem an intercept."
        )
    row = _one(clients.train, precision)
    problem.check_network(spec, row)
    weights = np.asarray(problem.client_weights(clients.sizes), precision)
    return Fed(problem, weights, len(clients), layout, spec, row)


def _check_symbols(problem: Problem, clients: Clients) -> None:
    """Refuse numbers beyond a network's table of vectors, which would read its last entry."""
    own = getattr(problem, "own", None)
    networks = (getattr(problem, "model", None), *(own if isinstance(own, tuple) else (own,)))
    sizes = [getattr(network, "vocabulary", None) for network in networks]
    vocabulary = min((size for size in sizes if isinstance(size, int)), default=None)
    for rows in (clients.train, clients.test):
        if vocabulary is None or rows is None or rows.x.dtype.kind not in "iu" or not rows.x.size:
            continue
        x = rows.x
        least, most = x.bounds() if isinstance(x, OnDisk) else (int(x.min()), int(x.max()))
        if most >= vocabulary:
            raise DataError(
                f"vocabulary of the network must be more than every number in the rows; it is "
                f"{vocabulary}, and the rows have {most}. Try vocabulary = {most + 1}, "
                f"or load the texts with a smaller vocabulary."
            )
        if least < 0:
            raise DataError(
                f"rows of a network with a vocabulary must be numbers of words from 0; they have "
                f"{least}. Number the words 0, 1, ..."
            )


def alone(problem: Problem, clients: Holders, batch_size: int | None, precision: str) -> list[Any]:
    """Each client by itself, with nothing but its own rows: what a site of a network holds."""
    if isinstance(clients, Parties):
        return _parties(vertical(problem), clients, precision, batch_size)
    fed = know(problem, clients, precision)
    variants: dict[int, Problem] = {}
    for variant, members in fed.problem.groups(clients):
        variants |= dict.fromkeys(range(len(clients)) if members is None else members, variant)

    def own(rows: Rows | None) -> Store | None:
        return None if rows is None else store(_cast(rows, precision), np.array([len(rows.y)]))

    layout = fed.layout
    return [
        Group(variants[i], own(clients.of(i)), own(clients.test_of(i)), layout, batch_size, (i,))  # type: ignore[arg-type]
        for i in range(len(clients))
    ]


def vertical(problem: Problem) -> Vertical:
    """The problem, where it is one for parties."""
    if not isinstance(problem, Vertical):
        raise ParameterError(
            f"parties with columns of the same rows need a vertical problem; got "
            f"{type(problem).__name__}. Use fl.problems.Vertical, or divide rows."
        )
    return problem


def _know_parties(
    problem: Vertical, parties: Parties, precision: str, batch_size: int | None
) -> LabelParty:
    """What the label party knows: the labels, and how many features the others have."""
    _check_values(problem, parties)
    shares = dict(zip(parties.names, parties.widths, strict=True))
    tested = parties.test_y
    own = () if problem.fusion is None else (LABEL_PARTY,)
    names = (*parties.names, *own)
    return LabelParty(
        problem,
        np.asarray(problem.client_weights(parties.widths), precision),
        len(parties),
        problem.joint_layout(shares, parties.classes, precision),
        Spec((sum(parties.widths),), parties.classes, precision),
        labels=problem.targets(parties.y, parties.classes, precision),
        test_labels=None if tested is None else problem.targets(tested, parties.classes, precision),
        order=tuple(sorted(range(len(names)), key=names.__getitem__)),
        batch_size=batch_size,
    )


def _check_values(problem: Vertical, parties: Parties) -> None:
    """Refuse classes as numbers to predict: they are numbered 0, 1, ..., whatever their names."""
    names = [] if parties.labels is None else parties.labels.tolist()
    if problem.loss == "squared" and len(names) > 2 and names != list(range(len(names))):
        listed = ", ".join(map(str, names[:3])) + (", ..." if len(names) > 3 else "")
        raise DataError(
            f"Vertical: loss 'squared' needs numbers to predict, or two classes; the data have "
            f"{len(names)} classes: {listed}. Use 'softmax'; or, for numbers to predict, set "
            f"regression = true in [data] (in Python regression=True)."
        )


def _parties(
    problem: Vertical, parties: Parties, precision: str, batch_size: int | None
) -> list[Party]:
    """Each party with its own columns."""
    tested = parties.test_features or [None] * len(parties)
    return [
        Party(
            problem,
            block(features, precision),
            None if held_out is None else block(held_out, precision),
            problem.share_layout(features.shape[1], parties.classes, precision),
            parties.classes,
            (i,),
            batch_size,
        )
        for i, (features, held_out) in enumerate(zip(parties.features, tested, strict=True))
    ]


def _cast(rows: Rows, precision: str) -> Rows:
    """The rows at the run's precision."""

    def cast(held: Any) -> Any:
        if isinstance(held, OnDisk):
            return held.astype(_dtype(held, precision))
        array = np.asarray(held)
        made = np.ascontiguousarray(array, _dtype(array, precision))
        if array.dtype.kind in "iu" and not np.array_equal(array, made):
            check_fits(array, made.dtype)  # which says what does not
        return made

    return Rows(cast(rows.x), cast(rows.y))


def _one(rows: Rows, precision: str) -> Rows:
    """What one row is like at the run's precision."""

    def shape(held: Any) -> Array:
        array = held if isinstance(held, OnDisk) else np.asarray(held)
        return abstract(array.shape[1:], _dtype(array, precision))

    return Rows(shape(rows.x), shape(rows.y))


def _dtype(array: np.ndarray | OnDisk, precision: str) -> DTypeLike:
    """Floating point numbers at the run's precision; classes and tokens as 32-bit integers."""
    return np.int32 if np.issubdtype(array.dtype, np.integer) else precision
