"""The rounds of a run, once it is settled who takes part: play, evaluate, save, wait for a quorum.

Where fewer than `min_sites` are left, the round is given up and played again when there are enough:
sites answer it from the states that they had before it. A round of secure sums may be lost instead,
which `SecureHub` sees to.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import checksums
from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.algorithms.wrappers.private import private_layer, sealed
from fedloom.errors import DataError, MissingDataError
from fedloom.exchange import wire
from fedloom.exchange.expected import as_shapes, expected_exchanges
from fedloom.exchange.hub import Hub, TooFewRepliesError
from fedloom.exchange.secure.hub import SecureHub
from fedloom.exchange.secure.sums import sums_of
from fedloom.experiments.settings import Settings
from fedloom.federation.server.columns import ColumnsAtServer
from fedloom.federation.server.rows import RowsAtServer
from fedloom.federation.server.sites import PAUSE_SECONDS, STRIKES, Sites, TooFewError
from fedloom.measuring import privacy_ledger
from fedloom.measuring.result import Result, listed, nested
from fedloom.metrics import chosen as metrics_of
from fedloom.population import know
from fedloom.pytrees import to_host
from fedloom.rounds.program import State
from fedloom.types import Tree


@dataclasses.dataclass
class Checkpoint:
    """How far a run has come: what the server keeps after each round, to go on from."""

    round: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    ages: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # of the clients' states
    roster: dict[str, Any] = dataclasses.field(default_factory=dict)
    rows: list[dict[str, float]] = dataclasses.field(default_factory=list)
    client_metrics: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    hub: Tree = ()
    info: list[Tree] = dataclasses.field(default_factory=list)


_ARRAYS = ("hub", "info", "client_metrics")


class Course:
    """A run at the server, from its first exchange or from a checkpoint on."""

    def __init__(
        self,
        settings: Settings,
        all: ColumnsAtServer | RowsAtServer,
        sites: Sites,
        noises: Mapping[str, tuple[float, float]],
        file: Path,
        *,
        saved: Checkpoint | None,
        note: Callable[[str], None],
    ):
        self.settings = settings
        self.all = all
        self.sites = sites
        self.noises = noises
        self.file = file
        self.note = note
        self.waiting = False
        self.progress = saved or Checkpoint()
        self.holders = all.holders()
        run, algorithm = settings.options(), settings.algorithm
        layer = None
        if isinstance(algorithm, Wrapper):  # one of its layers may be private
            algorithm = sealed(algorithm)
            layer = private_layer(algorithm)
        self.wanted = all.choose(run["metrics"])
        whole = as_shapes(settings.problem, self.holders, run["batch_size"], run["precision"])
        self._spent: Callable[[int], dict[str, float]] | None = None  # of privacy, after a round
        if layer is not None:
            self._spent = privacy_ledger.ledger(algorithm, whole, hidden=False)
        elif noises:
            self._spent = privacy_ledger.of_sites(algorithm, whole, noises)
        secure = settings.federation.secure_aggregation
        kind = functools.partial(SecureHub, sums=sums_of(algorithm, whole)) if secure else Hub
        self.hub: Hub = kind(
            algorithm,
            know(settings.problem, self.holders, run["precision"], run["batch_size"]),
            expected_exchanges(algorithm, whole),
            sites,
            names=all.roster.names,
            seed=run["seed"],
            fresh_if_stale=settings.federation.fresh_if_stale,
            report=note,
            judge=self._judge,
            least=sites.min_sites,
        )
        if saved:
            self._restore(saved)

    def play(self) -> None:
        """Play all exchanges that are left; then let every site keep its own model or share."""
        run, hub = self.settings.run, self.hub
        if not self.progress.rows:
            self._persist(hub.open)
            self._persist(lambda: self._evaluate(()))
            self._save()
        while hub.round < run.rounds:
            began = time.perf_counter()
            info = self._persist(hub.step)
            self.progress.seconds += time.perf_counter() - began
            if hub.round % run.eval_every == 0 or hub.round == run.rounds:
                self._persist(functools.partial(self._evaluate, info))
            self._save()
        for complaint in self._persist(lambda: self.all.close(hub, self.sites)):
            self.note(complaint)

    def _judge(self, name: str, fault: str | None) -> None:
        known = set(self.sites.refused)
        self.sites.judge(name, fault)
        if set(self.sites.refused) - known:
            self.note(
                f"{name} is left out for good, after {STRIKES} replies that are none: {fault}"
            )

    def _persist(self, part: Callable[[], Tree]) -> Tree:
        """Play a part of the run; if too few sites are left, wait for them and play it again."""
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

    def _evaluate(self, info: Tree) -> None:
        """Ask every site how the model does there."""
        hub = self.hub
        row, table = self.all.evaluate(hub, self.sites, self.wanted)
        common: dict[str, float] = {
            "round": hub.round,
            "bytes_up": hub.bytes_up,
            "bytes_down": hub.bytes_down,
            "seconds": self.progress.seconds,
            "sites": float(len(hub.contributors)),
        }
        spent = self._spent(hub.round) if self._spent else {}
        self.progress.rows.append(common | spent | row)
        self.progress.info.append(to_host(info))
        self.progress.client_metrics = table

    def _save(self) -> None:
        hub, progress = self.hub, self.progress
        progress.roster = self.all.roster._asdict()
        progress.ages = {str(id): list(tag) for id, tag in hub.ages.items()}
        progress.round, progress.bytes_up = hub.round, hub.bytes_up
        progress.bytes_down, progress.hub = hub.bytes_down, to_host(hub.state)
        save_checkpoint(progress, self.file)

    def _restore(self, saved: Checkpoint) -> None:
        hub = self.hub
        hub.state = jax.tree.map(
            jnp.asarray, wire.from_named(wire.named(saved.hub), jax.eval_shape(lambda: hub.state))
        )
        hub.ages = {int(id): (tag[0], tag[1]) for id, tag in saved.ages.items()}
        hub.round, hub.bytes_up, hub.bytes_down = saved.round, saved.bytes_up, saved.bytes_down
        self.note(f"goes on after round {hub.round}")

    def result(self, run_name: str, notes: list[str]) -> Result:
        """What the run leaves."""
        hub, run = self.hub, self.settings.options()
        problem = self.settings.problem
        known = metrics_of.of_metrics(self.wanted.names, problem)
        columns = self.progress.rows[-1] if self.progress.rows else ()
        promised = {}
        if self._spent is not None:
            promised = privacy_ledger.statement(self.settings.algorithm, self.noises)
        return Result(
            model=to_host(self.all.model(hub)),
            state=State(np.int64(hub.round), to_host(hub.state), ()),
            rows=self.progress.rows,
            client_metrics=self.progress.client_metrics,
            client_names=self.all.roster.names,
            info=self.progress.info,
            status="done",
            about={
                "algorithm": repr(self.settings.algorithm),
                "problem": repr(problem),
                "clients": len(self.all.roster.names),
                "batch_size": run["batch_size"],
                "seed": run["seed"],
                "precision": run["precision"],
                "engine": "federation",
                "run": run_name,
                "notes": notes,
                "larger_is_better": metrics_of.growing(columns, known),
                "headline": metrics_of.headline(self.wanted.names, problem),
                **promised,
                **self.all.about,
            },
            holdings=self.holders.holdings(),
        )


def save_checkpoint(progress: Checkpoint, path: Path) -> None:
    """Write a checkpoint in the place of the last one."""
    facts = {
        field.name: getattr(progress, field.name)
        for field in dataclasses.fields(progress)
        if field.name not in _ARRAYS
    }
    tree = {name: getattr(progress, name) for name in _ARRAYS}
    wire.write_file(path, tree, {"run": path.parent.name, "progress": facts})


def load_checkpoint(path: Path) -> Checkpoint | None:
    """The last checkpoint; None where no round was completed."""
    try:
        arrays, facts = wire.read_file(path)
    except MissingDataError:
        return None
    if facts.get("run") != path.parent.name:
        raise DataError(
            f"{path}: is the checkpoint of {facts.get('run')!r}, another run. Bring the right one "
            f"back, or submit the run anew without --resume."
        )
    with checksums.understood(path):
        told = facts["progress"]
        # The opening and rounds before which all were lost show nothing, and so have no arrays.
        shown = {name: arrays.pop(name) for name in list(arrays) if name.startswith("info/")}
        info = {name.removeprefix("info/"): array for name, array in shown.items()}
        tree = nested(arrays)
        metrics = dict(vars(tree.client_metrics)) if hasattr(tree, "client_metrics") else {}
        return Checkpoint(
            **told,
            hub=getattr(tree, "hub", ()),
            info=listed(info, len(told["rows"])),
            client_metrics=metrics,
        )
