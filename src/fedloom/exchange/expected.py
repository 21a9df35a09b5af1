"""The exchanges of a run, derived in advance: the method, message and reply of each.

Hub and site each derive them from the settings alone, by abstract evaluation. So either end knows
what may come from the other before a byte is sent. For this the federation is put together with
shapes in place of the rows, which the deriving end may not have.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.data.clients import Clients
from fedloom.data.parties import Holders, Parties
from fedloom.errors import ProtocolError
from fedloom.operators.blocks import Dense
from fedloom.population import Federation, Group, Party, alone, know, vertical
from fedloom.problems.base import Problem
from fedloom.problems.vertical import Vertical
from fedloom.protocol import Algorithm, Ask, Replies, Round, at_round
from fedloom.pytrees import abstract, pytree, static
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from fedloom.rows import Rows, store
from fedloom.types import Array, Held, Tree

T = TypeVar("T")

STAGES = ("opening", "round")
# Traced for one client, without an axis of clients through every operation: a third of the time.
_ONE_BY_ONE = Plan(1, None)


@pytree
class Expected:
    """One exchange: what goes down to a client and what comes up, as shapes and dtypes."""

    message: Tree
    reply: Tree
    method: str = static()
    clients: int = static()  # slots of the cohort
    occasion: str = static()  # when it takes place, if not in every round
    uniform: bool = static()  # whether every cohort of this size was equally likely


Expectations = dict[str, tuple[Expected, ...]]  # by stage


def expected_exchanges(algorithm: Algorithm, federation: Federation) -> Expectations:
    """The exchanges of the opening and of a round; the federation's rows may be mere shapes."""
    return worked_out(_played, algorithm, federation)


def worked_out(play: Callable[..., T], algorithm: Algorithm, federation: Federation) -> T:
    """`jax.eval_shape(play, ...)`, computed once for all runs of the same shapes.

    A server and sites in one process ask for the same, and so does every explanation of a method.
    """
    leaves, structure = jax.tree.flatten((algorithm, federation))
    widest = jax.dtypes.canonicalize_dtype("float64")  # single where double is turned off
    found = _outcome(play, structure, tuple(map(_shape, leaves)), widest)
    if isinstance(found, ProtocolError):
        raise ProtocolError(str(found))
    return found


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    kind = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)


@functools.lru_cache(maxsize=512)
def _outcome(play: Callable, structure: Any, shapes: tuple, widest: Any) -> Any:
    try:
        return jax.eval_shape(play, *jax.tree.unflatten(structure, shapes))
    except ProtocolError as error:
        return error.with_traceback(None)


def _played(algorithm: Algorithm, federation: Federation) -> Expectations:
    heard: Expectations = dict.fromkeys(STAGES, ())

    def hear(stage: str, request: Ask, replies: Replies) -> Replies:
        said = jax.tree.map(jnp.asarray, request.message_to(0))
        one = jax.tree.map(lambda v: v[0], replies.value)
        about = request.method, len(request.to), request.occasion, request.to.uniform
        heard[stage] += (Expected(said, one, *about),)
        return replies

    play_stages(algorithm, federation, hear)
    return heard


def play_stages(
    algorithm: Algorithm, federation: Federation, hear: Callable[[str, Ask, Replies], Any]
) -> None:
    """Play the opening and one round from the first state; for abstract evaluation.

    `hear` is called with the stage, the ask and the replies; the hub gets the replies it returns.
    """
    root = draws.key(0)
    algorithm = at_round(algorithm, 0)
    hub, clients = program.first_state(algorithm, federation, root, _ONE_BY_ONE)
    for stage in STAGES:
        begin: Callable[..., Round] = getattr(algorithm, stage)
        steps = _overheard(begin(hub, federation.fed, root), functools.partial(hear, stage))
        program.drive(steps, algorithm, federation, clients, root, 0, _ONE_BY_ONE)


def _overheard(steps: Round, hear: Callable[[Ask, Replies], Any]) -> Round:
    try:
        request = next(steps)
        while True:
            request = steps.send(hear(request, (yield request)))
    except StopIteration as end:
        return end.value


def shapes(tree: Tree) -> Tree:
    """The shapes and dtypes of a tree's arrays, without the arrays."""

    def of(leaf: Any) -> jax.ShapeDtypeStruct:
        typed = leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)
        return jax.ShapeDtypeStruct(typed.shape, typed.dtype)

    return jax.tree.map(of, tree)


def bare_clients(
    names: Sequence[str],
    counts: Sequence[Sequence[int]],
    features: tuple[int, ...],
    labels: np.ndarray | None,
) -> Clients:
    """Clients known only by counts: how many rows of each class each of them has.

    Their features are zeros that take no memory; their labels stand in order. A regression has one
    count for each client.
    """
    table = np.asarray(counts, np.int64)
    sizes = table.sum(1)
    x = np.broadcast_to(np.float32(0), (int(sizes.sum()), *features))
    if labels is None:
        return Clients(Rows(x, np.zeros(len(x))), sizes, tuple(names))
    classes = np.tile(np.arange(len(labels)), len(table))
    return Clients(Rows(x, np.repeat(classes, table.ravel())), sizes, tuple(names), labels)


def bare_parties(
    names: Sequence[str], widths: Sequence[int], rows: int, tested: int, classes: int
) -> Parties:
    """Parties known only by their numbers of people and features; all labels are 0."""

    def zeros(people: int) -> tuple[np.ndarray, ...]:
        return tuple(np.broadcast_to(np.float32(0), (people, width)) for width in widths)

    def labels(people: int) -> np.ndarray:
        return np.zeros(people, np.int64 if classes else np.float64)

    return Parties(
        zeros(rows),
        labels(rows),
        tuple(names),
        np.arange(classes) if classes else None,
        zeros(tested) if tested else None,
        labels(tested) if tested else None,
    )


def as_shapes(
    problem: Problem, bare: Holders, batch_size: int | None, precision: str
) -> Federation:
    """The federation with shapes in place of rows, to derive the exchanges of a run."""
    fed = know(problem, bare, precision, batch_size)
    if isinstance(bare, Parties):
        outlined = _outlined_parties(vertical(problem), bare, batch_size, precision)
        return Federation(fed, tuple(outlined))

    def shape(array: Held) -> Array:
        whole = np.issubdtype(array.dtype, np.integer)
        return abstract(array.shape, np.int32 if whole else precision)

    rows = Rows(shape(bare.train.x), shape(bare.train.y))
    nothing = Rows(np.zeros((len(bare.train.y), 0)), np.zeros((len(bare.train.y), 0)))
    groups = []
    for variant, members in fed.problem.groups(bare):
        chosen = np.arange(len(bare)) if members is None else np.asarray(members)
        laid_out = dataclasses.replace(store(nothing, bare.sizes[chosen]), rows=rows)
        ids = None if members is None else tuple(int(i) for i in members)
        groups.append(Group(variant, laid_out, None, fed.layout, batch_size, ids))
    return Federation(fed, tuple(groups))


def _outlined_parties(
    problem: Vertical, bare: Parties, batch_size: int | None, precision: str
) -> Iterator[Party]:
    for i, width in enumerate(bare.widths):
        block = Dense(abstract((width, bare.rows), precision))
        layout = problem.share_layout(width, bare.classes, precision)
        yield Party(problem, block, None, layout, bare.classes, (i,), batch_size)


def one_with_rows(
    problem: Problem,
    bare: Clients,
    i: int,
    train: Rows,
    test: Rows | None,
    batch_size: int | None,
    precision: str,
) -> Group:
    """The federation with the rows of client i, and only counts of the others."""
    fed = know(problem, bare, precision)
    variants = fed.problem.groups(bare)
    mine = next(variant for variant, members in variants if members is None or i in members)
    tested = np.zeros(0, np.int64) if test is None else np.array([len(test.y)])
    single = Clients(train, np.array([len(train.y)]), (bare.names[i],), bare.labels, test, tested)
    (group,) = alone(fed.problem, single, batch_size, precision)
    return dataclasses.replace(group, problem=mine, layout=fed.layout)
