"""The server of a run: who takes part, the rounds, the checkpoints, and waiting for a quorum.

Where fewer than `min_sites` are left, the round is given up and played again when there are enough:
sites answer it from the states that they had before it. A round of secure sums may be lost instead,
which `SecureHub` sees to.
"""

import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import directions
from fedloom.algorithms.wrappers.private import sealed
from fedloom.data import holdings
from fedloom.errors import FederationError
from fedloom.exchange import wire
from fedloom.exchange.hub import Hub, TooFewRepliesError
from fedloom.exchange.schema import schema
from fedloom.exchange.secure.circle import LEAST
from fedloom.exchange.secure.hub import SecureHub
from fedloom.exchange.secure.sums import sums_of
from fedloom.exchange.shapes import outline
from fedloom.federation.admission import at_server
from fedloom.federation.job import Job
from fedloom.federation.server.assembly import Assembly
from fedloom.federation.server.checkpoint import Progress, load, save
from fedloom.federation.server.columns import AllColumns
from fedloom.federation.server.rows import AllRows
from fedloom.federation.server.sites import PAUSE_SECONDS, STRIKES, Call, Sites, TooFewError
from fedloom.federation.server.tables import AllTables
from fedloom.measuring import privacy_ledger
from fedloom.measuring.result import Result
from fedloom.population import know
from fedloom.pytrees import to_host
from fedloom.rounds.fit import check_fit
from fedloom.rounds.program import State

Tree = Any
Facts = dict[str, Any]


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
        self.settings = job.settings(at_server(home))
        self.federation = self.settings.federation
        self.file = home / "runs" / job.run / "checkpoint.safetensors"
        self.log = log
        self.notes: list[str] = []
        self.waiting = False
        self.began = time.perf_counter()
        self.sites = Sites(calls, self.federation.timeout, self._quorum(len(calls)))
        self.home = home
        self.hub: Hub | None = None
        self.progress = Progress()

    def _quorum(self, sites: int) -> int:
        """How many must be there: below the least of a secure sum it is better to wait."""
        least = LEAST if self.federation.secure_aggregation else 1
        return max(self.federation.min_sites or sites, least)

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
        options = self.settings.options()
        with jax.enable_x64(options["precision"] == "float64"):
            check_fit(self.settings.algorithm, self.settings.problem)
            self.all = self._of_all()
            saved = load(self.file) if self.job.resume else None
            quorum = self._quorum(len(saved.roster["names"])) if saved else None
            assembly = Assembly(self.job, self.all, self.sites, self.note)
            assembly.gather(saved, quorum)
            self.noises = assembly.noises
            self._make_hub()
            if saved:
                self._restore(saved)
            else:
                self._persist(self._hub.open)
                self._persist(lambda: self._evaluate(()))
                self._save()
            self._rounds()
            for complaint in self._persist(lambda: self.all.close(self._hub, self.sites)):
                self.note(complaint)
            self.sites.close()
            return self._result("done")

    def _of_all(self) -> AllColumns | AllRows:
        if self.settings.problem.kind == "vertical":
            return AllColumns(self.settings, self.home, self.file.parent, self.sites)
        if "sites" in self.job.tables["data"]:
            return AllTables(self.settings, self.file.parent, self.sites)
        return AllRows(self.settings)

    def _make_hub(self) -> None:
        self.holders = self.all.holders()
        run, algorithm = self.settings.options(), sealed(self.settings.algorithm)
        place = (self.settings.problem, self.holders)
        self.fed = know(*place, run["precision"])
        self.wanted = self.all.choose(run["metrics"])
        whole = outline(*place, run["batch_size"], run["precision"])
        self.spent = privacy_ledger.ledger(algorithm, whole)
        if privacy_ledger.private_layer(algorithm) is None:
            self.spent = privacy_ledger.of_sites(algorithm, whole, self.noises)
        self.hub = (SecureHub if self.federation.secure_aggregation else Hub)(
            algorithm,
            self.fed,
            schema(algorithm, whole),
            self.sites,
            names=self.all.roster.names,
            seed=run["seed"],
            fresh_if_stale=self.federation.fresh_if_stale,
            report=self.note,
            judge=self._judge,
            least=self.sites.min_sites,
        )
        if isinstance(self.hub, SecureHub):
            self.hub.sums = sums_of(algorithm, whole)

    def _judge(self, name: str, fault: str | None) -> None:
        known = set(self.sites.refused)
        self.sites.judge(name, fault)
        if set(self.sites.refused) - known:
            self.note(
                f"{name} is left out for good, after {STRIKES} replies that are none: {fault}"
            )

    @property
    def _hub(self) -> Hub:
        if self.hub is None:
            raise FederationError("the run has not begun. Call run() first.")
        return self.hub

    def _persist(self, part: Callable[[], Tree]) -> Tree:
        """Play a part of the run; where sites become too few, wait for them and play it again."""
        while True:
            try:
                self.sites.check_quorum()
                return part()
            except (TooFewError, TooFewRepliesError) as error:
                self.note(f"paused: {error}")
                self.waiting = True
                time.sleep(PAUSE_SECONDS)
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
                self._persist(functools.partial(self._evaluate, info))
            self._save()

    def _evaluate(self, info: Tree) -> None:
        """Ask every site how the model does there."""
        hub = self._hub
        row, table = self.all.evaluate(hub, self.sites, self.wanted)
        common: dict[str, float] = {
            "round": hub.round,
            "bytes_up": hub.bytes_up,
            "bytes_down": hub.bytes_down,
            "seconds": self.progress.seconds,
            "sites": float(len(hub.contributors)),
        }
        self.progress.rows.append(common | self.spent(hub.round) | row)
        self.progress.info.append(to_host(info))
        self.progress.client_metrics = table

    def _save(self) -> None:
        hub, progress = self._hub, self.progress
        progress.roster = self.all.roster._asdict()
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
        hub, run = self._hub, self.settings.options()
        known = directions.of_metrics(run["metrics"], self.settings.problem)
        columns = self.progress.rows[-1] if self.progress.rows else ()
        return Result(
            model=to_host(self.all.model(hub)),
            state=State(np.int64(hub.round), to_host(hub.state), ()),
            rows=self.progress.rows,
            client_metrics=self.progress.client_metrics,
            client_names=self.all.roster.names,
            info=self.progress.info,
            status=status,
            about={
                "algorithm": repr(self.settings.algorithm),
                "problem": repr(self.settings.problem),
                "clients": len(self.all.roster.names),
                "batch_size": run["batch_size"],
                "seed": run["seed"],
                "precision": run["precision"],
                "engine": "federation",
                "run": self.job.run,
                "notes": self.notes,
                "larger_is_better": directions.growing(columns, known),
                **privacy_ledger.statement(self.settings.algorithm, self.noises),
                **self.all.about,
            },
            holdings=holdings.columns(self.holders),
        )
