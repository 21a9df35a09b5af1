"""Submit a run, follow it to its end, and submit it again where FLARE cannot go on by itself.

FLARE fails a whole job when one site's process dies, and does not take a restarted site back into a
running job. A run is therefore a sequence of jobs: each goes on from the server's last checkpoint,
and every site from the state that the checkpoint remembers of it.
"""

import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from fedloom.errors import FederationError
from fedloom.experiments.settings import Settings
from fedloom.federation.job import check_sendable, fingerprint, job_of
from fedloom.federation.job_files import write_job
from fedloom.federation.kits import Kit, check_may_submit
from fedloom.federation.people.bringing import bring
from fedloom.federation.people.records import Record, last_run
from fedloom.federation.people.session import ENDED, GOING, QUEUED, Session, check_home, connected
from fedloom.federation.reaching import CannotWriteError
from fedloom.measuring.result import Result
from fedloom.simulator.progress import Progress, Silent

MOST_JOBS = 20  # of one run; a site that dies again and again needs a person
READMIT_SECONDS = 10.0  # how long after its loss a site must be heard of to be taken back
PATIENCE_SECONDS = 120.0  # for a server that does not answer, and for sites to connect
STARTING_SECONDS = 30.0  # for a server that is being started
POLL_SECONDS = 1.0


def follow(
    kit: Kit,
    settings: Settings,
    out: Path,
    *,
    resume: bool = False,
    bar: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Submit a run, or go on with the last one of the same settings; bring its result home."""
    check_sendable(settings.tables, settings.place)
    check_may_submit(kit)
    check_home(out)
    if resume:
        record = last_run(kit, settings)
    else:
        stem = Path(settings.place.file).stem.replace(" ", "-")
        now = datetime.now()
        record = Record(kit, f"{stem}-{fingerprint(settings)}-{now:%Y%m%d-%H%M%S-%f}")
    record.keep(settings)
    return _Watch(kit, settings, record, resume, bar or Silent(), say).to_the_end(out)


class _Watch:
    def __init__(
        self,
        kit: Kit,
        settings: Settings,
        record: Record,
        resume: bool,
        bar: Progress,
        say: Callable[[str], None],
    ):
        self.kit = kit
        self.settings = settings
        self.record = record
        self.resume = resume
        self.bar = bar
        self.say = say
        self.ahead = ""  # what the run waits for in the server's queue
        self.heard = 0.0  # when the server last answered

    def to_the_end(self, out: Path) -> Result:
        for _ in range(MOST_JOBS):
            try:
                with connected(self.kit, patience=STARTING_SECONDS, say=self.say) as session:
                    self.heard = time.monotonic()
                    job = self._still_running(session) or self._submit(session)
                    if self._watch(session, job):
                        return bring(session, self.record, job, out)
                self.say("the job has ended before its time; it is submitted again")
            except _Unreachable:
                self._await_server()
            self.resume = True
        raise FederationError(
            f"run {self.record.run} was submitted {MOST_JOBS} times and is not done. Look at the "
            f"sites' logs, then go on with --resume."
        )

    def _still_running(self, session: Session) -> str | None:
        """The run's last job, where it goes on; one that only seems to is ended."""
        if not self.record.jobs:
            return None
        job = self.record.jobs[-1]
        state = self._state(session, job)
        if state.startswith(ENDED):
            return None
        if state in QUEUED or session.status(job) is not None:
            return job
        session.abort(job)
        return None

    def _submit(self, session: Session) -> str:
        """Hand the run in, for the sites that are there now."""
        federation = self.settings.federation
        wanted = federation.sites or tuple(self.record.sites) or None
        there = self._await_sites(session, wanted)
        if not self.record.sites:
            self.record.sites = sorted(wanted or there)
        needed = federation.min_sites or len(self.record.sites)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / self.record.run
            job = job_of(self.settings, self.record.run, self.resume)
            write_job(job, folder, tuple(self.record.sites), needed)
            id = session.submit(folder)
        self.record.jobs.append(id)
        self.record.write()
        self.say(f"run {self.record.run} is submitted to {', '.join(self.record.sites)}")
        return id

    def _await_sites(self, session: Session, wanted: tuple[str, ...] | None) -> list[str]:
        needed = self.settings.federation.min_sites or len(wanted or "1")
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            there = [name for name in session.sites() if wanted is None or name in wanted]
            if len(there) >= needed:
                return there
            if time.monotonic() > until:
                raise FederationError(
                    f"{len(there)} of the {needed} sites that the run needs are connected: "
                    f"{', '.join(there) or 'none'}. Start the others with `fedloom join`."
                )
            time.sleep(POLL_SECONDS)

    def _watch(self, session: Session, job: str) -> bool:
        """Follow one job; True if it came to a proper end, False if it must be submitted again."""
        noted = 0
        began = time.monotonic()
        while True:
            time.sleep(POLL_SECONDS)
            state = self._state(session, job)
            if state.startswith(ENDED):
                return state == f"{ENDED}:COMPLETED"
            if state in QUEUED and self._waits_in_line(session, job):
                began = time.monotonic()
                continue
            status = session.status(job)
            if status is None:
                # After a restart of the server a job counts as running that no longer is.
                if time.monotonic() - began > PATIENCE_SECONDS:
                    session.abort(job)
                    return False
                continue
            began = time.monotonic()
            if status.get("failed"):
                raise FederationError(status["failed"])
            fresh = status["noted"] - noted
            for text in status["notes"][-fresh:] if fresh > 0 else ():
                self.say(text)
            noted = status["noted"]
            if status["row"]:
                self.bar.evaluated(status["row"])
            self.bar.advance(status["round"], status["round"] / max(status["seconds"], 1e-9))
            if self._someone_is_back(session, status):
                self.say("a site is connected again; the run is submitted anew to take it back")
                session.abort(job)
                self._await_end(session, job)
                return False

    def _waits_in_line(self, session: Session, job: str) -> bool:
        """Whether this run waits because the server is busy with another one."""
        try:
            going = [row for row in session.jobs() if row.get("status") in GOING]
        except FederationError:
            return True  # whether the server is still there, the next look at the job's state tells
        ahead = ", ".join(sorted(str(row.get("name")) for row in going if row["job_id"] != job))
        if ahead and ahead != self.ahead:
            self.say(f"waiting in the server's queue, for the end of {ahead}")
        self.ahead = ahead
        return bool(ahead)

    def _state(self, session: Session, job: str) -> str:
        try:
            state = session.state(job)
        except FederationError as error:
            if time.monotonic() - self.heard > 3 * POLL_SECONDS:
                raise _Unreachable from error
            return ""
        self.heard = time.monotonic()
        return state

    def _someone_is_back(self, session: Session, status: dict[str, Any]) -> bool:
        """Whether a site that the job has lost is connected again, but without the job."""
        if not status["lost"]:
            return False
        heard = session.sites()
        return any(
            heard.get(name, 0.0) > since + READMIT_SECONDS for name, since in status["lost"].items()
        )

    def _await_end(self, session: Session, job: str) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until and not self._state(session, job).startswith(ENDED):
            time.sleep(POLL_SECONDS)

    def _await_server(self) -> None:
        """Wait for a server that went away."""
        self.say("the server does not answer; waiting for it")
        reason = ""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                with connected(self.kit):
                    return
            except CannotWriteError:
                raise
            except FederationError as error:
                reason = str(error)
                time.sleep(POLL_SECONDS)
        raise FederationError(
            f"the server has not answered for {PATIENCE_SECONDS:g} s: {reason} Start it with "
            f"`fedloom serve`, then go on with `fedloom submit --resume`."
        )


class _Unreachable(Exception):
    """The server does not answer."""
