"""The contract between an algorithm and an engine: a round is a generator that asks.

An algorithm is one class in one file. Its `round` runs at the hub and reads top to bottom like the
listing in its paper; `yield ask(method, message, to=cohort)` is the only way to talk to the
clients. The method runs at each client of the cohort, and the `yield` returns their `Replies`. An
exchange is a value, so an engine, a compressor or a fault can act on it without the algorithm
knowing.

The rules:

- The number of exchanges in a round is a Python constant. A conditional exchange is
  `ask(..., when=coin)`; there is no `yield` inside `lax`.
- A client method sees its state, its message, its oracle `f`, its key and the hyper-parameters.
  What `f` and `fed` have, for each kind of problem, is in `oracles.py`.
- A state is an array or a named tuple of arrays. It holds all that the next round needs.
  Diagnostics, which the next round does not need, are the second return value of the round.
- Models are vectors in R^d. The problem knows how a vector is divided into layers.
- A cohort may repeat a client only where clients keep no state.
"""

import dataclasses
import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import jax

from fedloom.cohorts import Cohort, Replies
from fedloom.errors import ProtocolError, unwritten
from fedloom.lazy import public
from fedloom.oracles import AnyFed, AnyOracle
from fedloom.parameters import (
    Rule,
    anything,
    at_least,
    at_least_zero,
    below_one,
    between,
    flag,
    fraction,
    instance_of,
    one_of,
    param,
    parametrised,
    per_cent,
    positive,
    positive_fraction,
)
from fedloom.pytrees import pytree, static
from fedloom.schedules import Schedule
from fedloom.types import Array, Tree

__all__ = ["Algorithm", "Ask", "Cohort", "Replies", "Round", "algorithm", "ask", "relay"]
__all__ += ["Rule", "anything", "at_least", "at_least_zero", "below_one", "between", "flag"]
__all__ += ["fraction", "instance_of", "one_of", "param", "parametrised", "per_cent", "positive"]
__all__ += ["positive_fraction"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


T = TypeVar("T")


@pytree
class Ask:
    """One exchange: the name of a client method, the message for it, and who gets it."""

    message: Tree  # what every client of the cohort is sent; with `each`, a stack of messages
    to: Cohort  # who is asked
    method: str = static()  # the name of the client method
    when: Array | bool = True  # False: the exchange does not take place in this round
    occasion: str = static(default="")  # when that is, in words
    each: bool = static(default=False)  # whether each slot of the cohort gets a message of its own

    def message_to(self, slot: int) -> Tree:
        """What the client in one slot of the cohort is sent."""
        return jax.tree.map(lambda stack: stack[slot], self.message) if self.each else self.message


def ask(
    method: Callable,
    message: Tree,
    *,
    to: Cohort,
    when: Array | bool = True,
    occasion: str = "at times",
    each: bool = False,
) -> Ask:
    """Ask the clients of a cohort to run a method of the algorithm on a message.

    A round yields what this returns, `replies = yield ask(...)`, and is given the `Replies`.

    Args:
        method: The client method, such as `self.train`. It is sent as a name, never as code.
        message: What every client of the cohort is sent: an array, or a named tuple of arrays.
        to: Who is asked, from `fl.cohorts`.
        when: Whether the exchange takes place in this round; may depend on arrays. If it does not,
            nobody is asked, and sums and means of the replies are zero.
        occasion: If `when` may be false, in words when the exchange takes place. The pages of the
            methods and `fedloom explain` show it.
        each: Whether every client gets a message of its own: the arrays of `message` then have a
            first axis with an entry for each slot of the cohort, and only that entry is sent.
    """
    return Ask(message, to, method.__name__, when, "" if when is True else occasion, each)


Round = Generator[Ask, Replies, tuple[Any, Any]]  # what `round` and `opening` return


def outcome_of(steps: Round, outcome: Any) -> tuple[Any, Any]:
    """What a round or an opening returned: the hub's next state, and diagnostics."""
    where = getattr(steps, "__qualname__", "round")
    return _two(outcome, where, "the hub's next state and diagnostics", "return hub, ()")


def _two(outcome: Any, where: str, what: str, ending: str) -> tuple[Any, Any]:
    """The two values that a function of a method returned; a named tuple is one value."""
    if isinstance(outcome, tuple) and len(outcome) == 2 and not hasattr(outcome, "_fields"):
        return outcome
    got = "nothing" if outcome is None else f"a {type(outcome).__name__}"
    if type(outcome) is tuple:
        got = f"a tuple of {len(outcome)}"
    elif hasattr(outcome, "shape"):
        got = f"an array of shape {outcome.shape}"
    raise ProtocolError(
        f"{where} must return two values, {what}; it returned {got}. End it with `{ending}`."
    )


class Algorithm:
    """Base of all algorithms: what an engine may call.

    A method is a class with the decorator `@algorithm`. It has at least `init_hub` and `round`,
    and the client methods that its round asks for: `method(client, message, f, key)` returns the
    client's next state and its reply. Arguments are passed by position, so you may name them as
    the paper does. In all methods of the class they are:

    - `hub`, `client`: the state of the hub, and of a client;
    - `fed`: what the hub may know: `fed.n` clients with `fed.weights`, `fed.init_model(key)`,
      `fed.prox(v, step)`;
    - `f`: a client's own function, through oracles such as `f.grad(w, key)` and `f.full_grad(w)`;
    - `key`: a random key, different for each round, exchange and client.

    Methods share code as functions of values, not by inheritance. If such a function asks
    clients, a round calls it with `yield from`.
    """

    __parametrised__: ClassVar[bool] = True
    takes: ClassVar[str] = "smooth"  # the kind of problem that the method is for
    dual: ClassVar[str] = "shared"  # in a saddle problem, whose dual: "shared" or "separate"
    takes_regulariser: ClassVar[bool] = False  # whether the method uses the regulariser g
    personal_models: ClassVar[bool] = False  # whether clients deploy networks of their own, `f.own`
    needs_everyone: ClassVar[bool] = False  # whether a round needs a reply of every client
    takes_constraint: ClassVar[bool] = False  # whether it can use a g that is a constraint
    takes_fusion: ClassVar[bool] = False  # whether it trains a network at the label party
    tells_labels: ClassVar[bool] = False  # whether the label party sends labels to other parties
    finite: ClassVar[bool] = True  # whether a message with NaN or infinity is refused on a network

    def init_hub(self, fed: AnyFed, key: Array, /) -> Tree:
        """The hub's state before the first round: an array, or a named tuple of arrays."""
        raise unwritten(self, "init_hub")

    def init_client(self, f: AnyOracle, key: Array, /) -> Tree:
        """A client's state before the first round; an empty tuple where it keeps none."""
        return ()

    def opening(self, hub: Tree, fed: AnyFed, key: Array, /) -> Round:
        """Exchanges that a method needs once, before its first round; returns as `round` does."""
        return hub, ()
        yield  # makes this function a generator

    def round(self, hub: Tree, fed: AnyFed, key: Array, /) -> Round:
        """One round: asks clients by `yield ask(...)`, and returns the hub's next state.

        The second value that it returns is for diagnostics: arrays that `Result.info` keeps at each
        evaluation, or `()`.
        """
        raise unwritten(self, "round")

    def model(self, hub: Tree, fed: AnyFed, /) -> Array:
        """The model that the hub holds after a round, as a vector; by default `hub.model`."""
        return hub.model

    def other_models(self, hub: Tree, fed: AnyFed, /) -> dict[str, Array]:
        """Further models that the hub holds, by name, such as an average of its iterates.

        Every metric is taken on them as well, under names such as "average_accuracy".
        """
        return {}

    def deployed(self, model: Array, client: Tree, f: AnyOracle, /) -> Array:
        """The model that a client would use: by default the hub's. Metrics are taken on it."""
        return model

    def perform(
        self, method: str, client: Tree, message: Tree, f: AnyOracle, key: Array, /
    ) -> tuple[Tree, Tree]:
        """Run a client method by its name, as an engine does; wrappers override this."""
        if method not in self.client_methods():
            known = ", ".join(self.client_methods())
            raise ProtocolError(
                f"{type(self).__name__} has no client method {method!r}; it has: {known}. "
                f"Ask for one of these."
            )
        outcome = getattr(self, method)(client, message, f, key)
        where = f"{type(self).__name__}.{method}"
        return _two(outcome, where, "the client's next state and its reply", "return client, reply")

    def client_methods(self) -> tuple[str, ...]:
        """The names that may be asked for: the public methods that are not part of this class."""
        return tuple(
            name
            for name, _ in inspect.getmembers(type(self), inspect.isfunction)
            if not name.startswith("_") and name not in _HOOKS
        )


_HOOKS = frozenset(vars(Algorithm))


@dataclass_transform(frozen_default=True, field_specifiers=(param, dataclasses.field))
def algorithm(cls: type[T]) -> type[T]:
    """Make a class an algorithm: its fields become arguments, checked by their rules.

    It becomes a frozen dataclass and a pytree. Fields annotated `float` are leaves: another value
    needs no new compilation. All other fields are constants of the compiled program.
    """
    own = getattr(cls, "round", Algorithm.round)  # or that of the class that it varies
    if own is Algorithm.round or not inspect.isgeneratorfunction(own):
        raise ProtocolError(
            f"{cls.__name__}.round must contain `yield ask(...)`: it asks no client anything. "
            f"Write `replies = yield ask(self.method, message, to=cohort)`."
        )
    return parametrised(cls)


def relay(
    steps: Round,
    outgoing: Callable[[Ask], Ask] = lambda request: request,
    incoming: Callable[[Replies], Replies] = lambda replies: replies,
) -> Round:
    """Pass a round's exchanges on, changing what goes out and what comes in.

    This is all that a wrapper needs: compression, clipping, noise and drop-outs work on any
    algorithm. Write `return (yield from relay(self.inner.round(hub, fed, key), outgoing))`.

    Args:
        steps: The round, or the opening, of the algorithm inside.
        outgoing: Applied to each `Ask` before it is sent.
        incoming: Applied to the `Replies` before the algorithm inside sees them.
    """
    try:
        request = next(steps)
        while True:
            replies = yield outgoing(request)
            request = steps.send(incoming(replies))
    except StopIteration as end:
        return end.value


def at_round(algorithm: T, round: Array | int) -> T:
    """The method, with its wrappers and parts, with a round's values for its schedules.

    Args:
        algorithm: The method.
        round: Which round, from 1; 0 is the opening. May be traced.
    """

    def now(leaf: object) -> object:
        return leaf.in_round(round) if isinstance(leaf, Schedule) else leaf

    return jax.tree.map(now, algorithm, is_leaf=lambda leaf: isinstance(leaf, Schedule))
