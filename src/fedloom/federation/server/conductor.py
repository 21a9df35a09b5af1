"""The server's side of a run: settles who takes part, conducts it, and reports how it stands."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from fedloom.checksums import read_json, write_json
from fedloom.errors import RefusedError
from fedloom.exchange.secure.circle import LEAST
from fedloom.federation.job import Job, admitted_at_server
from fedloom.federation.server.assembly import Assembly
from fedloom.federation.server.columns import ColumnsAtServer
from fedloom.federation.server.course import Checkpoint, Course, load_checkpoint
from fedloom.federation.server.rows import RowsAtServer
from fedloom.federation.server.sites import Call, Sites
from fedloom.federation.server.tables import TablesAtServer
from fedloom.measuring.result import Result
from fedloom.problems.vertical import Vertical
from fedloom.rounds.given import check_fit

Facts = dict[str, Any]


class Conductor:
    """A run at the server, from the first `hello` to the result."""

    def __init__(
        self,
        job: Job,
        calls: Mapping[str, Call],
        home: Path,
        *,
        submitter: str,
        log: Callable[[str], None] = lambda text: None,
    ):
        self.job = job
        self.settings = job.settings(admitted_at_server(home))
        self.federation = self.settings.federation
        self.file = home / "runs" / job.run / "checkpoint.safetensors"
        self.submitter = submitter  # by the certificate that the job is signed with
        self.log = log
        self.notes: list[str] = []
        self.sites = Sites(calls, self.federation.timeout, self._quorum(len(calls)))
        self.home = home
        self.course: Course | None = None  # once it is settled who takes part

    def _quorum(self, sites: int) -> int:
        """How many sites must be there; with secure sums at least as many as a sum needs."""
        least = LEAST if self.federation.secure_aggregation else 1
        return max(self.federation.min_sites or sites, least)

    def note(self, text: str) -> None:
        """Add a note for the person who follows the run."""
        self.notes.append(text)
        self.log(text)

    def status(self) -> Facts:
        """How the run stands, for whoever asks."""
        course = self.course
        progress = Checkpoint() if course is None else course.progress
        return {
            "round": 0 if course is None else course.hub.round,
            "rounds": self.settings.run.rounds,
            "seconds": progress.seconds,
            "waiting": course is not None and course.waiting,
            "lost": dict(self.sites.lost),
            "row": progress.rows[-1] if progress.rows else None,
            "notes": self.notes[-20:],
            "noted": len(self.notes),
        }

    def run(self) -> Result:
        """Say hello, settle who takes part, play all rounds, and return the result."""
        with jax.enable_x64(self.settings.run.precision == "float64"):
            check_fit(self.settings.algorithm, self.settings.problem)
            self._claim()
            all = self._of_all()
            saved = load_checkpoint(self.file) if self.job.resume else None
            quorum = self._quorum(len(saved.roster["names"])) if saved else None
            assembly = Assembly(self.job, all, self.sites, self.note)
            assembly.gather(saved, quorum)
            self.course = Course(
                self.settings,
                all,
                self.sites,
                assembly.noises,
                self.file,
                saved=saved,
                note=self.note,
            )
            self.course.play()
            self.sites.close()
            return self.course.result(self.job.run, self.notes)

    def _claim(self) -> None:
        """Refuse to go on with a run of somebody else, or to write over it."""
        file = self.file.parent / "submitter.json"
        if self.file.exists() and not file.exists():
            raise RefusedError(
                f"run {self.job.run!r} has a checkpoint at the server, and {file.name} beside it, "
                f"which says who submitted the run, is missing: it is of an older fedloom, or was "
                f"deleted. So nobody may go on with the run or write over it. Submit it anew, "
                f"without --resume; it then has a name and a folder of its own."
            )
        whose = read_json(file).get("submitter") if file.exists() else self.submitter
        if whose != self.submitter:
            raise RefusedError(
                f"run {self.job.run!r} was submitted by somebody else, who alone may go on with "
                f"it. Submit a run of your own, without --resume."
            )
        write_json(file, {"submitter": self.submitter})

    def _of_all(self) -> ColumnsAtServer | RowsAtServer:
        if isinstance(self.settings.problem, Vertical):
            return ColumnsAtServer(self.settings, self.home, self.file.parent, self.sites)
        if "sites" in self.job.tables["data"]:
            return TablesAtServer(self.settings, self.file.parent, self.sites)
        return RowsAtServer(self.settings)
