"""The sites of a run as the server reaches them: who is there, who is left out, who is back.

A site that does not answer in time is left out from then on, so that it costs the timeout once; it
is asked in the background whether it lives, and is taken back when it does.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fedloom import errors
from fedloom.errors import FederationError
from fedloom.exchange.hub import Hub, Letter, Lost
from fedloom.federation.letters import letter_facts
from fedloom.hints import printable

Facts = dict[str, Any]

PING_SECONDS = 5.0  # how long a site that was left out has to say that it lives
_LONGEST_TEXT = 1000  # characters of an error that a site sends
STRIKES = 3  # so many replies in a row that are none, and a site is left out for good
PAUSE_SECONDS = 1.0  # between two looks at who is there


class SiteError(Exception):
    """A site answered with an error, or not at all."""

    def __init__(self, kind: str, text: str):
        # It is somebody else's text, and goes into notes and onto screens.
        super().__init__(printable(text[:_LONGEST_TEXT]).replace("\n", " "))
        self.kind = kind  # the name of the error's class at the site; "TimeoutError": no answer


Call = Callable[[str, str, bytes, float], tuple[str, bytes]]  # verb, facts, body, seconds
# An error of fedloom's own says that the site lives; all others, that it cannot be reached.
_ALIVE = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.FedloomError)
)


class TooFewError(Exception):
    """Fewer sites are there than the run needs."""


class Sites:
    """The sites of a run, as a transport for the hub's letters."""

    def __init__(self, calls: Mapping[str, Call], timeout: float, min_sites: int):
        self.calls = calls
        self.timeout = timeout
        self.min_sites = min_sites
        self.lost: dict[str, float] = {}  # who is left out, and since when
        self.refused: dict[str, str] = {}  # who lives and will not take part, and why
        self.names: tuple[str, ...] = tuple(sorted(calls))
        self.greet: Callable[[str], None] = lambda name: None  # what a site hears on its return
        self._pool = ThreadPoolExecutor(max(4, len(calls)), "fedloom")
        self._strikes: dict[str, int] = {}
        self._back: set[str] = set()
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    @property
    def live(self) -> list[str]:
        """Who is there."""
        away = self.lost.keys() | self.refused.keys()
        return [name for name in self.names if name in self.calls and name not in away]

    def leave_out(self, name: str, error: SiteError) -> None:
        """Go on without a site until it is back, or for good if it refused."""
        if error.kind in _ALIVE:
            self.refused[name] = str(error)
        else:
            self.lost.setdefault(name, time.time())

    def judge(self, name: str, fault: str | None) -> None:
        """Count a site's invalid replies in a row; after too many the site is left out."""
        if fault is None or name in self.lost:
            self._strikes.pop(name, None)
            return
        self._strikes[name] = self._strikes.get(name, 0) + 1
        if self._strikes[name] == STRIKES:
            self.refused[name] = fault

    def send(
        self, letters: Mapping[int, Letter], verb: str = "letter"
    ) -> Mapping[int, bytes | Lost]:
        """Deliver letters to the sites that are there; raises TooFewError where they are too few.

        A verb of the secure sum travels as a letter too.
        """
        answers = self.ask_each(
            {
                self.names[id]: (verb, letter_facts(letter), letter.body)
                for id, letter in letters.items()
            }
        )
        self.check_quorum()
        silent = [answer for answer in answers.values() if isinstance(answer, SiteError)]
        refused = [answer for answer in silent if answer.kind == "RefusedError"]
        if refused and len(silent) == len(letters):
            raise FederationError(f"no site answers: {refused[0]}")
        return {id: _outcome(answers[self.names[id]]) for id in letters}

    def ask_each(
        self, questions: Mapping[str, tuple[str, Facts, bytes]]
    ) -> dict[str, tuple[str, bytes] | SiteError]:
        """Ask sites, all at once; those that are left out are not asked.

        Answers are in the order of the questions.
        """
        self._welcome()
        there = {name: q for name, q in questions.items() if name in self.live}
        futures = {
            name: self._pool.submit(self._ask, name, verb, facts, body)
            for name, (verb, facts, body) in there.items()
        }
        answers = {name: future.result() for name, future in futures.items()}
        return {
            name: answers[name] if name in answers else SiteError("TimeoutError", "it is not there")
            for name in questions
        }

    def call(
        self, name: str, verb: str, facts: Facts, body: bytes, seconds: float
    ) -> tuple[str, bytes]:
        """Ask one site; raises SiteError where it gives no answer, or none that is one."""
        try:
            text, data = self.calls[name](verb, json.dumps(facts), body, seconds)
            if not isinstance(text, str) or not isinstance(data, bytes):
                raise TypeError
        except (TypeError, ValueError):
            said = "it answered with something else than a text and bytes"
            raise SiteError("WireError", said) from None
        return text, data

    def _ask(
        self, name: str, verb: str, facts: Facts, body: bytes
    ) -> tuple[str, bytes] | SiteError:
        try:
            return self.call(name, verb, facts, body, self.timeout)
        except SiteError as error:
            if error.kind not in _ALIVE:
                self.lost.setdefault(name, time.time())
            return error

    def close(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def check_quorum(self) -> None:
        """Raise TooFewError where too few sites are there."""
        if len(self.live) < self.min_sites:
            raise TooFewError(f"{len(self.live)} of {self.min_sites} sites are there")

    def await_quorum(self, pause: float = PAUSE_SECONDS) -> None:
        """Wait until enough sites are there."""
        while True:
            self._welcome()
            if len(self.live) >= self.min_sites:
                return
            if len(self.live) + len(self.lost) < self.min_sites:
                reasons = by_reason(self.refused).items()
                said = "; ".join(f"{listed(names)}: {why}" for why, names in reasons)
                raise FederationError(
                    f"the run needs {self.min_sites} sites, and some will not take part ({said}). "
                    f"Mend that, then go on with --resume."
                )
            time.sleep(pause)

    def _welcome(self) -> None:
        """Take back who has answered; ask the others, without waiting, whether they live."""
        with self._lock:
            back, self._back = self._back, set()
        for name in back & self.lost.keys():
            try:
                self.greet(name)
            except SiteError as error:
                if error.kind not in _ALIVE:
                    continue
                self.refused[name] = str(error)
            del self.lost[name]
        for name in self.lost.keys() - self._asked:
            if name in self.calls:
                self._asked.add(name)
                self._pool.submit(self._ping, name)

    def _ping(self, name: str) -> None:
        try:
            self.call(name, "ping", {}, b"", PING_SECONDS)
            with self._lock:
                self._back.add(name)
        except SiteError:
            time.sleep(PAUSE_SECONDS)
        finally:
            self._asked.discard(name)


def by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """The sites that have each reason."""
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return found


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def about_states(hub: Hub, verb: str, body: bytes = b"") -> dict[str, tuple[str, Facts, bytes]]:
    """A question to every site, with the state of the site that it is about."""
    return {
        name: (verb, {"after": hub.ages[id], "round": hub.round}, body)
        for id, name in enumerate(hub.names)
    }


def _outcome(answer: tuple[str, bytes] | SiteError) -> bytes | Lost:
    if isinstance(answer, SiteError):
        return Lost(str(answer), stale=answer.kind == "StaleStateError")
    return answer[1]
