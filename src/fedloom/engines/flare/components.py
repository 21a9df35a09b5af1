"""The two classes that FLARE makes in a job's processes: glue, and nothing else.

They come from the fedloom that is installed at each end; a job only names them.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from fedloom.checksums import write_json
from fedloom.engines.flare.conductor import Conductor
from fedloom.engines.flare.desk import Desk
from fedloom.engines.flare.job import OUTCOME, RESULT, TOPIC, Job
from fedloom.engines.flare.sites import Call, SiteError
from fedloom.errors import FederationError, FedloomError, RefusedError

_LINGER = 1.0  # seconds in which a follower may still see the last round
log = logging.getLogger("fedloom")


class SiteSide:
    """A site: what the server calls, it passes on to the desk."""

    def __init__(self) -> None:
        self._desk: Desk | None = None
        self._lock = threading.Lock()

    @collab.publish  # type: ignore[untyped-decorator]
    def call(self, verb: str, facts: str, body: bytes) -> list[Any]:
        """Answer one call of the server; the other sites of the run may not ask."""
        if collab.caller != collab.server.name:
            raise RefusedError(
                f"only the server of the run may ask a site; {collab.caller!r} did. Its call was "
                f"not looked at."
            )
        with self._lock:
            if self._desk is None:
                self._desk = _desk_of(Path(collab.workspace.get_root_dir()))
        return list(self._desk.call(verb, facts, body))


def _desk_of(kit: Path) -> Desk:
    try:
        return Desk(kit)
    except FedloomError as error:  # it names the policy's file, and quotes it
        log.error("%s", error)
        raise FederationError("its policy cannot be read; its own log says why.") from None


class ServerSide:
    """The server: conducts the run, and leaves its result in the job's folder."""

    def __init__(self, job: str):
        self._job = job

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Conduct the run to its end, or say why it has none."""
        context = collab.fl_ctx
        workspace = collab.workspace
        folder = Path(workspace.get_run_dir(context.get_job_id()))
        calls = {proxy.name: _call(proxy) for proxy in collab.clients}
        home = Path(workspace.get_root_dir())
        try:
            conductor = Conductor(Job.from_text(self._job), calls, home, log=log.info)
            context.get_engine().register_app_command(
                TOPIC, lambda topic, data, ctx: conductor.status()
            )
            conductor.run().save(folder / RESULT)
            outcome = {"status": "done"}
            time.sleep(_LINGER)
        except Exception as error:  # without an outcome the job would be submitted over and over
            if not isinstance(error, FedloomError):
                log.exception("the run failed")
            outcome = {"status": "failed", "kind": type(error).__name__, "message": str(error)}
        write_json(folder / OUTCOME, outcome)


def _call(proxy: Any) -> Call:
    from nvflare.collab.api.exceptions import CollabCallError

    def call(verb: str, facts: str, body: bytes, seconds: float) -> tuple[str, bytes]:
        try:
            answer, data = proxy(timeout=seconds).call(verb, facts, body)
        except CollabCallError as error:
            raise SiteError(error.cause_type or "TimeoutError", str(error.cause)) from error
        return answer, data

    return call
