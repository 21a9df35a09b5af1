"""The two classes that FLARE makes in a job's processes: glue, and nothing else.

They come from the fedloom that is installed at each end; a job only names them.
"""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from fedloom.checksums import write_json
from fedloom.errors import FederationError, FedloomError, RefusedError
from fedloom.federation.job import OUTCOME, RESULT, TOPIC, Job, check_version
from fedloom.federation.server.conductor import Conductor
from fedloom.federation.server.sites import Call, SiteError
from fedloom.federation.site.service import SiteService

_LINGER = 1.0  # seconds in which a follower may still see the last round
_TELLING = 5.0  # in which a follower must ask, to hear why the run failed
_WRITING = (
    "the server could not read or write its files: {}. Make room in its kit, then go on with "
    "`fedloom submit --resume`."
)
log = logging.getLogger("fedloom")


class SiteSide:
    """A site: what the server calls, it passes on to the service."""

    def __init__(self) -> None:
        self._desk: SiteService | None = None
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


def _desk_of(kit: Path) -> SiteService:
    try:
        return SiteService(kit)
    except FedloomError as error:  # it names the policy's file, and quotes it
        log.error("%s", error)
        raise FederationError("its policy cannot be read; its own log says why.") from None


class ServerSide:
    """The server: conducts the run, and leaves its result in the job's folder."""

    def __init__(self, job: str, version: str | None = None):
        self._job = job
        self._version = version  # of the fedloom that submitted the job
        self._failed: str | None = None

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Conduct the run to its end, or say why it has none."""
        context = collab.fl_ctx
        workspace = collab.workspace
        folder = Path(workspace.get_run_dir(context.get_job_id()))
        calls = {proxy.name: _call(proxy) for proxy in collab.clients}
        home = Path(workspace.get_root_dir())
        conductor: Conductor | None = None
        try:
            check_version(self._version, "whoever submitted the run")
            meta = json.loads(Path(workspace.get_job_meta_path(context.get_job_id())).read_text())
            conductor = Conductor(
                *(Job.from_text(self._job), calls, home),
                submitter=meta["submitter_name"],
                log=log.info,
            )
            status = conductor.status
            context.get_engine().register_app_command(
                TOPIC, lambda topic, data, ctx: {**status(), "failed": self._failed}
            )
            conductor.run().save(folder / RESULT)
            outcome: dict[str, Any] = {"status": "done"}
            time.sleep(_LINGER)
        except Exception as error:  # without an outcome the job would be submitted over and over
            message = str(error)
            if not isinstance(error, FedloomError):
                log.exception("the run failed")
            if isinstance(error, OSError) and not isinstance(error, FedloomError):
                # With a full disk no outcome can be left, so whoever follows is told.
                self._failed = message = _WRITING.format(error.strerror or error)
                time.sleep(_TELLING)
            outcome = {"status": "failed", "kind": type(error).__name__, "message": message}
            if conductor is not None:
                outcome["refused"] = sorted(conductor.sites.refused)  # the sites that said no
        write_json(folder / OUTCOME, outcome)


def _call(proxy: Any) -> Call:
    from nvflare.collab.api.exceptions import CollabCallError

    def call(verb: str, facts: str, body: bytes, seconds: float) -> tuple[str, bytes]:
        try:
            answer, data = proxy(timeout=seconds).call(verb, facts, body)
        except CollabCallError as error:
            kind, said = error.cause_type or "TimeoutError", str(error.cause)
            raise SiteError(kind, said.removeprefix(f"{kind}: ")) from error
        return answer, data

    return call
