"""The server of a run: who takes part, the rounds, the checkpoints, and waiting for a quorum.

Sites are reached by `Call`s, whatever carries them. A site that does not answer in time is left out
from then on, so that it costs the timeout once; it is asked in the background whether it lives, and
is taken back when it does. Where fewer than `min_sites` are left, the round is given up and played
again when there are enough: sites answer it from the states that they had before it.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.engines import evaluation, wire
from fedloom.engines.block import State
from fedloom.engines.flare.checkpoint import Progress, load, save
from fedloom.engines.flare.desk import letter_facts
from fedloom.engines.flare.job import Job
from fedloom.engines.hub import Hub, Letter, Lost
from fedloom.engines.outlines import bare_clients, outline
from fedloom.engines.result import Result, to_host
from fedloom.engines.schema import schema
from fedloom.engines.secure.hub import SecureHub
from fedloom.engines.secure.sums import sums_of
from fedloom.engines.simulator import check_fit
from fedloom.errors import FederationError
from fedloom.federation import know

Tree = Any
Facts = dict[str, Any]

PING_SECONDS = 5.0  # how long a site that was left out has to say that it lives
PAUSE_SECONDS = 1.0  # between two looks at who is there


class SiteError(Exception):
    """A site answered with an error, or not at all."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind  # the name of the error's class at the site; "TimeoutError": no answer


Call = Callable[[str, str, bytes, float], tuple[str, bytes]]  # verb, facts, body, seconds
_ALIVE = frozenset({"WireError", "StaleStateError", "RefusedError", "NotFiniteError"})


class TooFewError(Exception):
    """Fewer sites are there than the run needs."""


class Roster(NamedTuple):
    """Who takes part in a run, in the order that gives everyone its number."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # rows of each class; all rows, of a regression
    shape: tuple[int, ...]
    labels: list[Any] | None


class Sites:
    """The sites of a run, as a transport for the hub's letters."""

    def __init__(self, calls: Mapping[str, Call], timeout: float, min_sites: int):
        self.calls = calls
        self.timeout = timeout
        self.min_sites = min_sites
        self.lost: dict[str, float] = {}  # who is left out, and since when
        self.names: tuple[str, ...] = tuple(sorted(calls))
        self.greet: Callable[[str], None] = lambda name: None  # what a site hears on its return
        self._pool = ThreadPoolExecutor(max(4, len(calls)), "fedloom")
        self._back: set[str] = set()
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    @property
    def live(self) -> list[str]:
        """Who is there."""
        return [name for name in self.names if name in self.calls and name not in self.lost]

    def send(self, letters: Mapping[int, Letter]) -> Mapping[int, bytes | Lost]:
        """Deliver letters to the sites that are there; raises TooFewError where they are too few.

        A verb of the secure sum travels as a letter too.
        """
        answers = self.ask_each(
            {
                self.names[id]: ("letter", letter_facts(letter), letter.body)
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
        """Put questions to sites, all at once; who is left out gets none."""
        self._welcome()
        there = {name: q for name, q in questions.items() if name in self.live}
        futures = {
            name: self._pool.submit(self._ask, name, verb, facts, body)
            for name, (verb, facts, body) in there.items()
        }
        answers = {name: future.result() for name, future in futures.items()}
        gone = SiteError("TimeoutError", "it is not there")
        return {name: answers.get(name, gone) for name in questions}

    def _ask(
        self, name: str, verb: str, facts: Facts, body: bytes
    ) -> tuple[str, bytes] | SiteError:
        try:
            return self.calls[name](verb, json.dumps(facts), body, self.timeout)
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
            time.sleep(pause)

    def _welcome(self) -> None:
        """Take back who has answered; ask the others, without waiting, whether they live."""
        with self._lock:
            back, self._back = self._back, set()
        for name in back & self.lost.keys():
            try:
                self.greet(name)
            except SiteError:
                continue
            del self.lost[name]
        for name in self.lost.keys() - self._asked:
            if name in self.calls:
                self._asked.add(name)
                self._pool.submit(self._ping, name)

    def _ping(self, name: str) -> None:
        try:
            self.calls[name]("ping", "{}", b"", PING_SECONDS)
            with self._lock:
                self._back.add(name)
        except SiteError:
            time.sleep(PAUSE_SECONDS)
        finally:
            self._asked.discard(name)


def _outcome(answer: tuple[str, bytes] | SiteError) -> bytes | Lost:
    if isinstance(answer, SiteError):
        return Lost(str(answer), stale=answer.kind == "StaleStateError")
    return answer[1]


class Conductor:
    """A run at the server."""

    def __init__(
        self,
        job: Job,
        calls: Mapping[str, Call],
        home: Path,
        *,
        log: Callable[[str], None] = lambda text: None,
    ):
        self.job = job
        self.settings = job.settings
        self.federation = self.settings.federation
        self.file = home / "runs" / job.run / "checkpoint.safetensors"
        self.log = log
        self.notes: list[str] = []
        self.waiting = False
        self.began = time.perf_counter()
        self.sites = Sites(calls, self.federation.timeout, self.federation.min_sites or len(calls))
        self.hub: Hub | None = None
        self.progress = Progress()

    def note(self, text: str) -> None:
        """Something that the person who follows the run should read."""
        self.notes.append(text)
        self.log(text)

    def status(self) -> Facts:
        """How the run stands, for whoever asks."""
        return {
            "round": 0 if self.hub is None else self.hub.round,
            "rounds": self.settings.run.rounds,
            "seconds": self.progress.seconds,
            "waiting": self.waiting,
            "lost": dict(self.sites.lost),
            "row": self.progress.rows[-1] if self.progress.rows else None,
            "notes": self.notes[-20:],
            "noted": len(self.notes),
        }

    def run(self) -> Result:
        """Everything, from the first hello to the result."""
        options = self.settings.run.options()
        with jax.enable_x64(options["precision"] == "float64"):
            check_fit(self.settings.algorithm, self.settings.problem)
            saved = load(self.file) if self.job.resume else None
            self._gather(saved.roster if saved else None)
            self._make_hub()
            if saved:
                self._restore(saved)
            else:
                self._persist(self._open)
                self._evaluate(())
            self._rounds()
            self.sites.close()
            return self._result("done")

    def _gather(self, known: Facts | None) -> None:
        """Say hello to everyone; settle who takes part, or check that they still fit."""
        hello = self.job._asdict()
        names = self.sites.names
        answers = self.sites.ask_each({name: ("hello", hello, b"") for name in names})
        there: dict[str, Facts] = {}
        for name, answer in answers.items():
            if isinstance(answer, SiteError):
                self.sites.lost.setdefault(name, time.time())
                self.note(f"{name} does not take part: {answer}")
            else:
                there[name] = json.loads(answer[0])
        if known is not None:
            self.roster = Roster(**known)
            self.sites.min_sites = self.federation.min_sites or len(self.roster.names)
        else:
            self._check_enough()
            order = self.federation.sites or sorted(there)
            self.roster = _roster({name: there[name] for name in order if name in there})
        self.sites.names = self.roster.names
        for name in self.roster.names:
            if name not in there:
                self.sites.lost.setdefault(name, time.time())
        self.sites.greet = self._greet
        self._begin(list(there))
        if known is None:
            self._check_enough()

    def _check_enough(self) -> None:
        """At the start nobody is worth waiting for: who is not there now has said no."""
        if len(self.sites.live) < self.sites.min_sites:
            raise FederationError(
                f"{len(self.sites.live)} of {len(self.sites.calls)} sites take part, and the run "
                f"needs {self.sites.min_sites}. {' '.join(self.notes)}"
            )

    def _begin(self, names: list[str]) -> None:
        facts = self.roster._asdict()
        ids = {name: i for i, name in enumerate(self.roster.names)}
        answers = self.sites.ask_each(
            {name: ("begin", {"id": ids[name], **facts}, b"") for name in names if name in ids}
        )
        for name, answer in answers.items():
            if isinstance(answer, SiteError):
                self.sites.lost.setdefault(name, time.time())
                self.note(f"{name} does not take part: {answer}")

    def _greet(self, name: str) -> None:
        """A site that was left out is there again; its process may be another one."""
        call, timeout = self.sites.calls[name], self.sites.timeout
        facts = {"id": self.roster.names.index(name), **self.roster._asdict()}
        call("hello", json.dumps(self.job._asdict()), b"", timeout)
        call("begin", json.dumps(facts), b"", timeout)
        self.note(f"{name} is back")

    def _make_hub(self) -> None:
        labels = None if self.roster.labels is None else np.array(self.roster.labels)
        roster = self.roster
        clients = bare_clients(roster.names, roster.counts, tuple(roster.shape), labels)
        run, algorithm = self.settings.run.options(), self.settings.algorithm
        place = (self.settings.problem, clients)
        self.fed = know(*place, run["precision"])
        self.wanted = evaluation.choose(run["metrics"], self.settings.problem, False)
        if "auc" in self.wanted.of_the_whole:
            raise FederationError(
                "metric 'auc' over all sites' rows would need every row's score at the hub. "
                "Choose a metric that each site can take by itself."
            )
        whole = outline(*place, run["batch_size"], run["precision"])
        self.hub = (SecureHub if self.federation.secure_aggregation else Hub)(
            algorithm,
            self.fed,
            schema(algorithm, whole),
            self.sites,
            names=roster.names,
            seed=run["seed"],
            fresh_if_stale=self.federation.fresh_if_stale,
            report=self.note,
        )
        if isinstance(self.hub, SecureHub):
            self.hub.sums = sums_of(algorithm, whole)

    @property
    def _hub(self) -> Hub:
        if self.hub is None:
            raise FederationError("the run has not begun. Call run() first.")
        return self.hub

    def _open(self) -> None:
        self._hub.open()

    def _persist(self, part: Callable[[], Tree]) -> Tree:
        """Play a part of the run; where sites become too few, wait for them and play it again."""
        while True:
            try:
                self.sites.check_quorum()
                return part()
            except TooFewError as error:
                self.note(f"paused: {error}")
                self.waiting = True
                self.sites.await_quorum()
                self.waiting = False
                self.note("enough sites are there; the run goes on")

    def _rounds(self) -> None:
        run, hub = self.settings.run, self._hub
        while hub.round < run.rounds:
            began = time.perf_counter()
            info = self._persist(hub.step)
            self.progress.seconds += time.perf_counter() - began
            if hub.round % run.eval_every == 0 or hub.round == run.rounds:
                self._evaluate(info)
            self._save()

    def _evaluate(self, info: Tree) -> None:
        """Ask every site how the model does there."""
        hub, wanted = self._hub, self.wanted
        model = np.asarray(hub.algorithm.model(hub.state, self.fed))
        facts = {"metrics": wanted.of_clients, "value": "objective" in wanted.of_the_whole}
        body = wire.encode(model)
        answers = self.sites.ask_each(
            {
                name: ("measure", {**facts, "after": hub.ages[id]}, body)
                for id, name in enumerate(self.roster.names)
            }
        )
        told = [
            {} if isinstance(answer, SiteError) else json.loads(answer[0])
            for answer in answers.values()
        ]

        def column(name: str) -> np.ndarray:
            values = [facts.get(name) for facts in told]
            return np.array([np.nan if value is None else value for value in values], float)

        table = {name: column(name) for name in wanted.of_clients}
        row: dict[str, float] = {
            "round": hub.round,
            "bytes_up": hub.bytes_up,
            "bytes_down": hub.bytes_down,
            "seconds": self.progress.seconds,
            "sites": float(len(self.sites.live)),
        }
        for name, metric in wanted.at(self.settings.problem).items():
            row |= evaluation.spread(name, table[name], metric.larger_is_better)
        if facts["value"]:
            mean = float(np.asarray(self.fed.weights, float) @ column("value"))
            row["objective"] = mean + float(self.fed.regularisation(jnp.asarray(model)))
        if "sparsity" in wanted.of_the_whole:
            row["sparsity"] = float(np.mean(model == 0))
        self.progress.rows.append(row)
        self.progress.info.append(to_host(info))
        self.progress.client_metrics = table

    def _save(self) -> None:
        hub, progress = self._hub, self.progress
        progress.roster = self.roster._asdict()
        progress.ages = {str(id): list(tag) for id, tag in hub.ages.items()}
        progress.round, progress.bytes_up = hub.round, hub.bytes_up
        progress.bytes_down, progress.hub = hub.bytes_down, to_host(hub.state)
        save(progress, self.file)

    def _restore(self, saved: Progress) -> None:
        hub = self._hub
        hub.state = jax.tree.map(
            jnp.asarray, wire.from_named(wire.named(saved.hub), jax.eval_shape(lambda: hub.state))
        )
        hub.ages = {int(id): (tag[0], tag[1]) for id, tag in saved.ages.items()}
        hub.round, hub.bytes_up, hub.bytes_down = saved.round, saved.bytes_up, saved.bytes_down
        self.progress = saved
        self.note(f"goes on after round {hub.round}")

    def _result(self, status: str) -> Result:
        hub, run = self._hub, self.settings.run.options()
        vector = hub.algorithm.model(hub.state, self.fed)
        return Result(
            model=to_host(self.fed.layout.unravel(vector)),
            state=State(np.int64(hub.round), to_host(hub.state), ()),
            rows=self.progress.rows,
            client_metrics=self.progress.client_metrics,
            client_names=self.roster.names,
            info=self.progress.info,
            status=status,
            about={
                "algorithm": repr(self.settings.algorithm),
                "problem": repr(self.settings.problem),
                "clients": len(self.roster.names),
                "batch_size": run["batch_size"],
                "seed": run["seed"],
                "precision": run["precision"],
                "engine": "federation",
                "run": self.job.run,
                "notes": self.notes,
            },
        )


def _roster(there: Mapping[str, Facts]) -> Roster:
    """The sites in their order; their columns must be the same."""
    names = tuple(there)
    first = there[names[0]]
    for name in names:
        if there[name]["features"] != first["features"] or there[name]["shape"] != first["shape"]:
            raise FederationError(
                f"{name} has the columns {', '.join(there[name]['features'])}; {names[0]} has "
                f"{', '.join(first['features'])}. Name the columns with features in [data], and "
                f"the categories of words with categories."
            )
        if (there[name]["labels"] is None) != (first["labels"] is None):
            raise FederationError(
                f"the labels of {name} and {names[0]} must both be classes, or both be numbers. "
                f"State it with regression in [data]."
            )
    told = [there[name] for name in names]
    if first["labels"] is None:
        return Roster(names, tuple(tuple(t["counts"]) for t in told), tuple(first["shape"]), None)
    labels = sorted({label for facts in told for label in facts["labels"]})
    tables = [dict(zip(facts["labels"], facts["counts"], strict=True)) for facts in told]
    counts = tuple(tuple(table.get(label, 0) for label in labels) for table in tables)
    return Roster(names, counts, tuple(first["shape"]), labels)
