"""The law before all others: a round asks, clients answer, and states keep their shapes.

The method is first played on shapes alone, with one client of each group, so that a breach of the
protocol is found at the line of code that causes it; then it runs for a few rounds.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.checking.authors import line_of, line_of_return, line_of_yield
from fedloom.checking.case import Case
from fedloom.checking.verdicts import BrokenLawError, Difference
from fedloom.errors import DivergedError, ProtocolError
from fedloom.hub_view import LabelParty
from fedloom.population import Federation
from fedloom.protocol import Algorithm, Ask, Cohort, Replies, at_round, outcome_of
from fedloom.pytrees import named, unlike
from fedloom.types import Tree

_MANY = 100  # exchanges in a round


class _Played(NamedTuple):
    hub: Tree
    clients: list[Tree]  # the state of one client of each group


def can_be_played(case: Case) -> str:
    """A round asks, its client methods return a state and a reply, and states keep their shapes."""
    asked: list[str] = []

    def play(method: Algorithm, federation: Federation) -> None:
        root, fed = draws.key(0), federation.fed
        method = at_round(method, 0)
        hub = method.init_hub(fed, root)
        _check_arrays(hub, "init_hub", line_of_return(type(method).init_hub))
        states = [method.init_client(group.objective(0), root) for group in federation.groups]
        for state in states:
            _check_arrays(state, "init_client", line_of_return(type(method).init_client))
        before = _stage(method, "opening", federation, _Played(hub, states), asked)
        _check_model(method, federation, before)
        after = _stage(method, "round", federation, before, asked)
        at = line_of_return(type(method).round)
        _check_alike("a round must return a hub as it got it", "hub", before.hub, after.hub, at)

    with jax.enable_x64(True):
        jax.eval_shape(play, case.method, case.federation())
    try:
        _ = case.result
    except DivergedError as error:
        raise BrokenLawError(
            f"{error} It was tried with {case.method!r}.", line=line_of(type(case.method).round)
        ) from error
    exchanges = "exchange" if len(asked) == 1 else "exchanges"
    return f"{len(asked)} {exchanges}: {', '.join(asked)}"


def _check_model(method: Algorithm, federation: Federation, played: _Played) -> None:
    """The hub's model, or the share of each party, must have the size that the problem gives it."""
    model = method.model(played.hub, federation.fed)
    made: list[tuple[Callable, int, Any]] = [
        (type(method).model, federation.fed.layout.size, model)
    ]
    if isinstance(federation.fed, LabelParty):  # parties have a model only together
        shares = zip(federation.groups, played.clients, strict=True)
        made = [
            (type(method).deployed, g.layout.size, method.deployed(model, state, g.objective(0)))
            for g, state in shares
        ]
    for function, size, vector in made:
        if jnp.shape(vector) != (size,):
            raise BrokenLawError(
                "a model is a vector, which the problem folds into its arrays",
                Difference("model", f"shape ({size},)", f"shape {jnp.shape(vector)}"),
                line=line_of_return(function),
            )


def _stage(
    method: Algorithm, stage: str, federation: Federation, before: _Played, asked: list[str]
) -> _Played:
    function = getattr(type(method), stage)
    steps: Any = getattr(method, stage)(before.hub, federation.fed, draws.key(0))
    if not isinstance(steps, Generator):
        raise BrokenLawError(
            f"{stage} must be a generator: `replies = yield ask(self.method, message, to=cohort)`, "
            f"and `return hub, info` at its end",
            line=line_of(function),
        )
    states = before.clients
    try:
        request = next(steps)
        for _ in range(_MANY):
            states, replies = _exchange(method, request, steps, federation, states)
            asked.append(request.method)
            request = steps.send(replies)
    except StopIteration as end:
        at = line_of_return(function)
        with _refused_at(at):
            outcome = outcome_of(steps, end.value)
        _check_arrays(outcome, stage, at)
        return _Played(outcome[0], states)
    raise BrokenLawError(
        f"{stage} asks more than {_MANY} times; the number of exchanges must be a constant",
        line=line_of_yield(steps, method),
    )


def _exchange(
    method: Algorithm, request: Any, steps: Generator, federation: Federation, states: list[Tree]
) -> tuple[list[Tree], Replies]:
    """One client of each group answers, and its reply stands for all."""
    line = line_of_yield(steps, method)
    if not isinstance(request, Ask) or not isinstance(request.to, Cohort):
        raise BrokenLawError(
            f"a round may only yield ask(self.method, message, to=cohort); it yielded "
            f"{_kind(request)}",
            line=line,
        )
    if request.method not in method.client_methods():
        known = ", ".join(method.client_methods()) or "none"
        raise BrokenLawError(
            f"{request.method!r} is no client method, which has a name without an underscore and "
            f"is not one of the protocol's own; there is: {known}",
            line=line,
        )
    _check_arrays(request.message, f"the message to {request.method}", line)
    own = getattr(type(method), request.method, None)
    at = line if own is None else line_of_return(own)
    after, replies = [], []
    for group, state in zip(federation.groups, states, strict=True):
        f = group.objective(0)
        with _refused_at(at):
            outcome = method.perform(request.method, state, request.message_to(0), f, draws.key(0))
        _check_arrays(outcome, request.method, at)
        message = f"{request.method} must return the client's state as it got it"
        _check_alike(message, "client", state, outcome[0], at)
        after.append(outcome[0])
        replies.append(outcome[1])
    for reply in replies[1:]:
        message = f"replies to {request.method} must be alike at all clients"
        _check_alike(message, "reply", replies[0], reply, at)
    stacked = lambda leaf: jnp.broadcast_to(leaf, (len(request.to), *jnp.shape(leaf)))  # noqa: E731
    return after, Replies(jax.tree.map(stacked, replies[0]), request.to)


@contextmanager
def _refused_at(line: str) -> Iterator[None]:
    """What the protocol refuses is a broken law at a line."""
    try:
        yield
    except ProtocolError as error:
        raise BrokenLawError(str(error), line=line) from error


def _check_arrays(tree: Tree, source: str, line: str) -> None:
    for name, leaf in named(tree).items():
        try:
            jnp.result_type(leaf)
            jnp.shape(leaf)
        except (TypeError, ValueError):
            raise BrokenLawError(
                f"{source} may only hold arrays, numbers and tuples of them; {name} is "
                f"{_kind(leaf)}",
                line=line,
            ) from None


def _check_alike(message: str, root: str, before: Tree, after: Tree, line: str) -> None:
    """Structures, shapes and types of two trees are the same."""
    found = unlike(before, after, root)
    if found is not None:
        raise BrokenLawError(message, Difference(*found), line=line)


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
