"""The hub of a federation whose clients can be reached only by bytes, by any transport.

A `Transport` delivers letters to clients, and returns their answers or that there was none. The hub
plays the method's generator between exchanges, checks every reply against what it expects, and goes
on with the replies that arrived. An invalid reply is dropped, and nothing else.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.errors import DivergedError, FederationError, NotFiniteError, WireError
from fedloom.exchange import wire
from fedloom.exchange.expected import Expectations, Expected
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Ask, Cohort, Replies, at_round, outcome_of
from fedloom.pytrees import payload_bytes, pytree
from fedloom.rounds.compiling import reproducible
from fedloom.types import Array, Tree

Tag = tuple[int, int]  # the round and the exchange after which a client's state was as it is
FIRST: Tag = (0, 0)


class Letter(NamedTuple):
    """A message to a client: the method to run, its argument, and where in the run this is."""

    method: str
    body: bytes
    round: int
    exchange: int
    cohort: int  # how many clients are asked in this exchange
    after: Tag | None  # the state to answer from; None: a fresh one
    phase: str = ""  # of a secure sum, where the exchange is one


class Lost(NamedTuple):
    """Why there is no answer."""

    reason: str
    stale: bool = False  # the client lives, but has no state of the age that was asked for


class TooFewRepliesError(Exception):
    """Fewer sites gave a valid reply than the run needs; the round can be played again."""


class Transport(Protocol):
    """Whatever carries letters."""

    def send(self, letters: Mapping[int, Letter]) -> Mapping[int, bytes | Lost]:
        """Deliver letters to clients, all at once; returns what became of each."""


@pytree
class Ended:
    """A round came to its end."""

    hub: Tree
    info: Tree


@reproducible("stage")
def next_step(
    algorithm: Algorithm, hub: Tree, fed: Fed, key: Array, answers: tuple[Replies, ...], stage: str
) -> Ask | Ended:
    """What the hub does after these replies: the next ask, or the end of the round.

    A generator cannot be kept between compiled programs, so each step replays the hub's code from
    the start of the round, which is cheap, and the outcome is the same as in the simulator.
    """
    steps = getattr(algorithm, stage)(hub, fed, key)
    try:
        request = next(steps)
        for replies in answers:
            request = steps.send(replies)
    except StopIteration as end:
        return Ended(*outcome_of(steps, end.value))
    return request


_hub_key = jax.jit(draws.hub_key)


class Hub:
    """The hub's state, and the rounds that advance it.

    If the transport raises in a round, the state stays as it was. The round can then be played
    again, and clients answer it from the states that they had before it.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        fed: Fed,
        expected: Expectations,
        transport: Transport,
        *,
        names: Sequence[str],
        seed: int = 0,
        fresh_if_stale: bool = False,
        report: Callable[[str], None] = lambda text: None,
        judge: Callable[[str, str | None], None] = lambda name, fault: None,
        least: int = 0,
    ):
        self.algorithm = algorithm
        self.fed = fed
        self.expected = expected
        self.transport = transport
        self.names = names
        self.fresh_if_stale = fresh_if_stale
        self.report = report
        self.judge = judge  # hears of every client whether its reply was valid, or why not
        self.least = least  # valid replies that an exchange needs, or all where fewer are asked
        self.contributors: set[int] = set()  # who gave all that it was asked for in the last round
        self.root = draws.key(seed)
        self.state = at_round(algorithm, 0).init_hub(fed, draws.first_hub_key(self.root))
        self.ages: dict[int, Tag] = dict.fromkeys(range(fed.n), FIRST)
        self.round = self.bytes_down = self.bytes_up = 0

    def open(self) -> None:
        """The exchanges that a method needs once, before its first round."""
        self._play("opening", 0)

    def step(self) -> Tree:
        """One round; returns the method's diagnostics."""
        info = self._play("round", self.round + 1)
        self.round += 1
        return info

    def _play(self, stage: str, round: int) -> Tree:
        key = _hub_key(self.root, round)
        algorithm = at_round(self.algorithm, round)
        answers: tuple[Replies, ...] = ()
        ages = dict(self.ages)
        self.contributors = set(range(self.fed.n))
        while True:
            step = next_step(algorithm, self.state, self.fed, key, answers, stage=stage)
            if isinstance(step, Ended):
                self._check_finite(step.hub, round)
                self.state, self.ages = step.hub, ages
                return step.info
            expected = self.expected[stage][len(answers)]
            answers = (*answers, self._exchange(step, expected, round, len(answers) + 1, ages))

    def _exchange(
        self, request: Ask, expected: Expected, round: int, exchange: int, ages: dict[int, Tag]
    ) -> Replies:
        """Send the message to every client of the cohort that is present; stack what comes back."""
        ids = np.asarray(request.to.ids)
        present = np.asarray(request.to.present) & bool(request.when)
        letters = self.letters(request, present, round, exchange, ages)
        replies = self._collect(letters, expected)
        ages |= dict.fromkeys(replies, (round, exchange))
        nothing = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), expected.reply)
        present = present & np.isin(ids, list(replies))
        slots = [replies[id] if there else nothing for id, there in zip(ids, present, strict=True)]
        value = jax.tree.map(lambda *rows: jnp.asarray(np.stack(rows)), *slots)
        return Replies(value, Cohort(jnp.asarray(ids), jnp.asarray(present), request.to.repeats))

    def letters(
        self, request: Ask, present: np.ndarray, round: int, exchange: int, ages: dict[int, Tag]
    ) -> dict[int, Letter]:
        """A letter for each client that is asked, and the state to answer from."""
        ids = np.asarray(request.to.ids).tolist()
        slots = {id: slot for slot, id in enumerate(ids) if present[slot]}
        asked = sorted(slots)
        shared = b"" if request.each else wire.encode(request.message)
        return {
            id: Letter(
                request.method,
                wire.encode(request.message_to(slots[id])) if request.each else shared,
                round,
                exchange,
                len(asked),
                ages[id],
            )
            for id in asked
        }

    def _collect(self, letters: dict[int, Letter], expected: Expected) -> dict[int, Tree]:
        """The replies that arrived and are valid."""
        outcome = dict(self.deliver(letters))
        replies: dict[int, Tree] = {}
        not_finite = 0
        for id, answer in outcome.items():
            try:
                replies[id] = self.opened(id, answer, expected.reply)
            except NotFiniteError:
                not_finite += 1
            except WireError:
                continue
        self.bytes_down += len(letters) * payload_bytes(expected.message)
        self.bytes_up += len(replies) * payload_bytes(expected.reply)
        if not_finite and not replies:
            raise DivergedError(
                f"{type(self.algorithm).__name__} diverged: no reply to {expected.method!r} is "
                f"finite. Lower the step size, or normalise the features."
            )
        self.check_complete(letters, replies)
        return replies

    def check_complete(self, letters: Collection[int], arrived: Collection[int]) -> None:
        """Raise if a reply is missing that the method or the run needs."""
        self.contributors -= set(letters) - set(arrived)
        if self.algorithm.needs_everyone and len(arrived) < len(letters):
            silent = ", ".join(self.names[id] for id in letters if id not in arrived)
            raise FederationError(
                f"this method needs a valid reply from every site; {silent} sent none. Look at its "
                f"log, then submit the run again, with --resume if it had begun."
            )
        needed = min(self.least, len(letters))
        if len(arrived) < needed:
            raise TooFewRepliesError(f"{len(arrived)} of {needed} valid replies came")

    def deliver(self, letters: dict[int, Letter]) -> dict[int, bytes | Lost]:
        """Send letters; if allowed, clients whose state is too old start with a fresh one."""
        outcome = dict(self.transport.send(letters)) if letters else {}
        if self.fresh_if_stale:
            stale = [id for id, got in outcome.items() if isinstance(got, Lost) and got.stale]
            for id in stale:
                self.report(f"{self.names[id]} starts afresh: its state was lost")
            again = {id: letters[id]._replace(after=None) for id in stale}
            outcome |= self.transport.send(again) if again else {}
        return outcome

    def opened(self, id: int, answer: bytes | Lost, like: Tree) -> Tree:
        """A client's answer, decoded and checked; errors name the client."""
        name = self.names[id]
        if isinstance(answer, Lost):
            self.report(f"{name} is left out: {answer.reason}")
            self.judge(name, answer.reason)
            raise WireError(f"{name}: {answer.reason}. The round goes on without it.")
        try:
            reply = wire.decode(answer, like, finite=self.algorithm.finite)
        except WireError as error:
            self.report(f"a reply of {name} is refused: {error}")
            self.judge(name, str(error))
            raise
        self.judge(name, None)
        return reply

    def _check_finite(self, state: Tree, round: int) -> None:
        if self.algorithm.finite and not wire.finite(wire.named(state)):
            raise DivergedError(
                f"{type(self.algorithm).__name__} diverged: the hub's state is not finite after "
                f"round {round}. Lower the step size, or normalise the features."
            )
