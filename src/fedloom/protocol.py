"""The contract between an algorithm and an engine: a round is a generator that asks.

An algorithm is one definition in one file. Its `round` runs at the hub and reads top to bottom like
the listing in its paper; `yield ask(method, message, to=cohort)` is the only way to talk to the
clients. The method runs at each client of the cohort, and what comes back are the `Replies`. An
exchange is a value, so an engine, a compressor or a fault can stand in between without the
algorithm knowing.

The rules:

- The number of exchanges in a round is a Python constant. A conditional exchange is
  `ask(..., when=coin)`; there is no `yield` inside `lax`.
- A client method sees its state, its message, its oracle `f`, its key and the hyper-parameters.
  What `f` and `fed` have, for each kind of problem, is in `oracles.py`.
- State is values: arrays, or named tuples of them. What the next round needs is in the state; what
  is only for the eye goes into the second return value of the round.
- Models are vectors in R^d. The problem knows how a vector folds into layers.
- A cohort may repeat a client only where clients keep no state.
"""

import dataclasses
import inspect
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ProtocolError
from fedloom.oracles import AnyFed, AnyOracle
from fedloom.parameters import param, parametrised
from fedloom.pytrees import pytree, static
from fedloom.types import Array, Held, Tree

T = TypeVar("T")
Reply = TypeVar("Reply")


@pytree
class Cohort:
    """The clients that an exchange goes to; its size is static, its content need not be."""

    ids: Held  # (m,) whom
    present: Held  # (m,) False marks padding, or a client that dropped out
    repeats: bool = static(default=False)  # may a client occur twice? then it must keep no state
    uniform: bool = static(default=False)  # was every set of this size equally likely to be drawn?

    def __len__(self) -> int:
        return self.ids.shape[0]

    def any(self) -> Array:
        """Whether anybody is there. A round without anybody must leave the hub as it was."""
        return jnp.asarray(self.present).any()

    def scale(self, n: int) -> Array:
        """What makes a sum over those who are there an estimate of that over all n; 0 for nobody.

        It is unbiased where, given how many are there, every set of so many was equally likely.
        """
        there = jnp.asarray(self.present).sum()
        return jnp.where(there > 0, n / jnp.maximum(there, 1), 0)

    def messages(self) -> Array:
        """How many clients are spoken to; one that occurs twice gets one message."""
        present = jnp.asarray(self.present)
        if not self.repeats:
            return present.sum()
        ids = jnp.where(present, self.ids, -1)
        earlier = jnp.tril(ids[:, None] == ids[None, :], -1).any(1)
        return (present & ~earlier).sum()


@pytree
class Ask:
    """One exchange: the name of a client method, the message for it, and who gets it."""

    message: Tree
    to: Cohort
    method: str = static()
    when: Array | bool = True  # False: the exchange does not take place in this round
    occasion: str = static(default="")  # when that is, in words


def ask(
    method: Callable,
    message: Tree,
    *,
    to: Cohort,
    when: Array | bool = True,
    occasion: str = "at times",
) -> Ask:
    """Ask the clients of a cohort to run a method of the algorithm on a message.

    Where `when` may be false, `occasion` says in words when the exchange takes place.
    """
    return Ask(message, to, method.__name__, when, "" if when is True else occasion)


@pytree
class Replies(Generic[Reply]):
    """What came back: values stacked on a leading axis, and which of them are there.

    Every reduction weighs by what arrived, so an algorithm survives a lost client without a line
    of its own. Where nothing arrived, sums and means are zero: aggregate changes, not models.
    """

    value: Reply
    cohort: Cohort

    def sum(self, weights: Held | None = None) -> Reply:
        """The sum of the replies that arrived, each times its client's entry of `weights`."""
        return self._combine(self._factors(weights))

    def mean(self) -> Reply:
        """The plain mean of the replies that arrived."""
        return self.average(None)

    def average(self, weights: Held | None) -> Reply:
        """The mean of the replies that arrived, weighted by each client's entry of `weights`."""
        factors = self._factors(weights)
        total = factors.sum()
        return self._combine(factors / jnp.where(total > 0, total, 1))

    def estimate(self, weights: Held) -> Reply:
        """An unbiased estimate of the mean over all clients, weighted by `weights`.

        Each reply counts n / m times its client's weight, with m the number that arrived. `average`
        divides by the weights that arrived instead: over a cohort that is the ratio of two random
        numbers, whose mean is another; of a single client it forgets the weight altogether. Where
        weights are alike, the two agree. The replies must be changes: weights of a cohort need not
        sum to one.
        """
        if self.cohort.repeats:
            raise ProtocolError(
                "estimate is for cohorts in which every client is equally likely; this one was "
                "drawn by weight, and its plain mean is unbiased. Use mean()."
            )
        total = jnp.asarray(weights).astype(float).sum()
        factors = self._factors(weights) * self.cohort.scale(len(weights))
        return self._combine(factors / total)

    def map(self, function: Callable[[Any], Any]) -> "Replies":
        """Each reply passed through a function."""
        return Replies(jax.vmap(function)(self.value), self.cohort)

    def scatter(self, n: int) -> Reply:
        """One row for each of `n` clients, zero where no reply came from; repeats add up."""
        slots = jnp.where(self.cohort.present, self.cohort.ids, n)
        return jax.tree.map(
            lambda v: jnp.zeros((n, *v.shape[1:]), v.dtype).at[slots].add(v, mode="drop"),
            self.value,
        )

    def _factors(self, weights: Held | None) -> Array:
        arrived = jnp.asarray(self.cohort.present).astype(float)
        return arrived if weights is None else arrived * jnp.asarray(weights)[self.cohort.ids]

    def _combine(self, factors: Array) -> Reply:
        present = self.cohort.present
        all_there = isinstance(present, np.ndarray) and present.all()

        def over_clients(v: Array) -> Array:
            if not all_there:
                # What an absent slot holds may be anything, so it is cut out, not scaled.
                v = jnp.where(jnp.reshape(present, (-1, *[1] * (v.ndim - 1))), v, 0)
            return jnp.tensordot(factors.astype(v.dtype), v, 1)

        return jax.tree.map(over_clients, self.value)


Round = Generator[Ask, Replies, tuple[Any, Any]]


class Algorithm:
    """Base of all algorithms: what an engine may call.

    A method carries `@algorithm`, and has at least `init_hub` and `round`, beside the client
    methods that its round asks for: `method(client, message, f, key)` returns the client's next
    state and its reply. What several methods share may stand in a class between the two.
    """

    __parametrised__: ClassVar[bool] = True
    takes: ClassVar[str] = "smooth"  # the kind of problem that the method is for
    dual: ClassVar[str] = "shared"  # in a saddle problem, whose dual: "shared" or "separate"
    takes_regulariser: ClassVar[bool] = False  # whether the method heeds the problem's g
    needs_everyone: ClassVar[bool] = False  # whether a round needs a reply of every client
    takes_constraint: ClassVar[bool] = False  # whether it does where g is a constraint
    finite: ClassVar[bool] = True  # whether a message with NaN or infinity is refused on a network

    def init_hub(self, fed: AnyFed, key: Array, /) -> Tree:
        """The hub's state before the first round."""
        raise NotImplementedError

    def init_client(self, f: AnyOracle, key: Array, /) -> Tree:
        """A client's state before the first round; an empty tuple where it keeps none."""
        return ()

    def opening(self, hub: Tree, fed: AnyFed, key: Array, /) -> Round:
        """Exchanges that a method needs once, before its first round."""
        return hub, ()
        yield  # makes this function a generator

    def round(self, hub: Tree, fed: AnyFed, key: Array, /) -> Round:
        """One round; returns the hub's next state, and what is only for the eye."""
        raise NotImplementedError

    def model(self, hub: Tree, fed: AnyFed, /) -> Array:
        """The model that the hub hands out."""
        return hub.model

    def other_models(self, hub: Tree, fed: AnyFed, /) -> dict[str, Array]:
        """Further models that the hub holds, by name, such as an average of its iterates.

        Every metric is taken on them as well, under names such as "average_accuracy".
        """
        return {}

    def deployed(self, model: Array, client: Tree, f: AnyOracle, /) -> Array:
        """The model that a client would use: the hub's, or its own. Metrics are taken on it."""
        return model

    def perform(
        self, method: str, client: Tree, message: Tree, f: AnyOracle, key: Array, /
    ) -> tuple[Tree, Tree]:
        """Run a client method by its name, as an engine does."""
        if method not in self.client_methods():
            known = ", ".join(self.client_methods())
            raise ProtocolError(
                f"{type(self).__name__} has no client method {method!r}; it has: {known}. "
                f"Ask for one of these."
            )
        return getattr(self, method)(client, message, f, key)

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
    """Make a class an algorithm: a frozen dataclass and pytree whose float fields are leaves."""
    if not inspect.isgeneratorfunction(vars(cls).get("round")):
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

    This is all a wrapper needs: compression, clipping, noise and drop-outs work on any algorithm.
    """
    try:
        request = next(steps)
        while True:
            replies = yield outgoing(request)
            request = steps.send(incoming(replies))
    except StopIteration as end:
        return end.value


def payload_bytes(tree: Tree) -> int:
    """How many bytes the arrays of a message take on the wire."""
    leaves = jax.tree.leaves(tree)
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in map(_typed, leaves))


def _typed(leaf: Any) -> Any:
    return leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)
