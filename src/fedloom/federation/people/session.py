"""A person's connection to the server."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedloom.checksums import read_json
from fedloom.errors import DivergedError, FederationError
from fedloom.federation.job import OUTCOME, RESULT, TOPIC, is_id
from fedloom.federation.kits import Kit
from fedloom.federation.reaching import await_server, knock
from fedloom.files import writable_folder, write_bytes, write_folder
from fedloom.measuring.result import NAMES, Result, check_replaceable, load

# FLARE's words for how a job stands.
QUEUED = ("SUBMITTED", "APPROVED")
GOING = ("DISPATCHED", "RUNNING")
ENDED = "FINISHED"


class Session:
    """What a person may ask of the server."""

    def __init__(self, flare: Any):
        self._flare = flare

    def sites(self) -> dict[str, float]:
        """The sites that are connected, and when each was last heard of."""
        info = self._asked(self._flare.get_system_info)
        return {site.name: float(site.last_connect_time) for site in info.client_info}

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, the latest first."""
        rows = self._asked(self._flare.list_jobs, detailed=True)
        for row in rows:
            _number(row.get("job_id"))
        return sorted(rows, key=lambda row: str(row.get("submit_time")), reverse=True)

    def submit(self, folder: Path) -> str:
        """Hand in a job folder; returns the job's id."""
        from fedloom.federation.people.transfers import handing_in

        with handing_in(folder):
            return _number(self._asked(self._flare.submit_job, str(folder)))

    def state(self, job: str) -> str:
        """FLARE's word for how a job stands."""
        return str(self._asked(self._flare.get_job_status, _number(job)))

    def status(self, job: str) -> dict[str, Any] | None:
        """How an own run stands, as its job says; None if it does not answer, or is another's."""
        _number(job)
        try:
            told = self._flare.do_app_command(job, TOPIC, None)
        except Exception:  # FLARE raises many kinds, as where a job is about to begin or to end
            return None
        return told if "round" in told else None

    def abort(self, job: str) -> None:
        """End a job."""
        _number(job)
        with contextlib.suppress(Exception):
            self._flare.abort_job(job)

    def fetch(
        self, job: str, out: Path, noted: Callable[[dict[str, Any]], None] = lambda told: None
    ) -> Result:
        """Bring the result of a job that is done into a folder; `noted` hears how it ended."""
        check_home(out)
        with self._left_by(job) as outcome:
            told = read_json(outcome)
            noted(told)
            if told.get("status") != "done":
                kind = DivergedError if told.get("kind") == "DivergedError" else FederationError
                raise kind(str(told.get("message")))
            source = outcome.parent / RESULT
            write_folder(out, lambda new: _copy(source, new))
        return load(out)

    def outcome(self, job: str) -> dict[str, Any]:
        """How a job has ended, by its own word."""
        with self._left_by(job) as outcome:
            return read_json(outcome)

    @contextlib.contextmanager
    def _left_by(self, job: str) -> Iterator[Path]:
        """The file in which a job says how it ended, with its result beside it."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(self._asked(self._flare.download_job_result, _number(job), name))
            outcome = next(folder.rglob(OUTCOME), None)
            if outcome is None:
                raise FederationError(
                    f"job {job} left no result: it {self.state(job)}. Submit it with --resume."
                )
            yield outcome

    def _asked(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except Exception as error:
            kind = type(error).__name__
            if "not authorized" in str(error).lower():
                raise FederationError(
                    "the server says that this kit may not do that: a lead may submit runs and "
                    "fetch their own, and a member may look on. Ask the coordinator for another "
                    "kit, or whoever submitted the run for its result."
                ) from error
            said = str(error).rstrip(".")
            raise FederationError(f"the server says {kind}: {said}. See its log.") from error


@contextlib.contextmanager
def connected(
    kit: Kit, seconds: float = 10.0, *, patience: float = 0.0, say: Callable[[str], None] = print
) -> Iterator[Session]:
    """A session, closed at the end: an open one would keep this process from ending.

    For a server that does not answer yet it waits as long as `patience`, and says so.
    """
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    from fedloom.federation.gate import guard
    from fedloom.federation.people.transfers import careful

    guard()
    careful()
    if patience:
        await_server(kit, patience, say)
    else:
        knock(kit)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # FLARE greets on standard output
            flare = new_secure_session(
                kit.name, str(kit.path), timeout=seconds, auto_login_max_tries=2
            )
    except Exception as error:
        raise FederationError(
            f"the server of {kit.project} cannot be reached: {error}. Is `fedloom serve` running?"
        ) from error
    try:
        yield Session(flare)
    finally:
        with contextlib.suppress(Exception):
            flare.close()


def check_home(out: Path) -> None:
    """Refuse to bring a result home in the place of something else; an empty folder is nothing."""
    writable_folder(out)
    if not out.is_dir() or any(out.iterdir()):
        check_replaceable(out)


def _number(job: object) -> str:
    """The id of a job: FLARE puts it into a line of words, and takes some of these for paths."""
    if isinstance(job, str) and is_id(job):
        return job
    raise FederationError(
        f"the server calls a job {str(job)[:200]!r}, which is no id of a job. It was not asked "
        f"about it; whoever runs the server should look into that."
    )


def _copy(source: Path, target: Path) -> None:
    """Copy the files of a result, and nothing else that the server may have put there."""
    for name in NAMES:
        file = source / name
        if file.is_file() and not file.is_symlink():
            write_bytes(target / name, file.read_bytes(), shared=True)
