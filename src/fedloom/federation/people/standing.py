"""How runs stand, in words for people; FLARE calls even a run that sites refused "completed"."""

from collections.abc import Callable
from typing import Any

from fedloom.errors import FederationError
from fedloom.federation.kits import Kit
from fedloom.federation.people.records import Record, all_runs
from fedloom.federation.people.session import ENDED, QUEUED, Session

COMPLETED = f"{ENDED}:COMPLETED"
_WORDS = {
    **dict.fromkeys(QUEUED, "waits"),
    "DISPATCHED": "begins",
    "RUNNING": "runs",
    f"{ENDED}:ABORTED": "was ended before its time",
}


def standings(kit: Kit, session: Session) -> list[dict[str, Any]]:
    """A row for each job, the latest first: its run, how it stands, and why it failed."""
    own = {job: record for record in all_runs(kit) for job in record.jobs}
    return [
        _standing(session, str(row.get("job_id")), row, own.get(str(row.get("job_id"))))
        for row in session.jobs()
    ]


def _standing(
    session: Session, job: str, row: dict[str, Any], record: Record | None
) -> dict[str, Any]:
    flare = str(row.get("status"))
    told = session.status(job) if flare == "RUNNING" else None
    shown = {
        "run": row.get("name"),
        "job": job,
        "state": _WORDS.get(flare, f"ended: {flare}"),
        "round": None if told is None else f"{told['round']} of {told['rounds']}",
        "why": None,
    }
    if flare != COMPLETED:
        return shown
    end = None if record is None else _end(record, job, session.outcome)
    return shown | _ended(end)


def _end(record: Record, job: str, ask: Callable[[str], dict[str, Any]]) -> dict[str, Any] | None:
    """How an own job ended: as noted, or asked of the server once."""
    if job not in record.ends:
        try:
            record.end(job, ask(job))
        except FederationError:
            return None
    return record.ends[job]


def _ended(end: dict[str, Any] | None) -> dict[str, Any]:
    if end is None:  # only whoever submitted a run may see what it left
        return {"state": "ended", "why": "how it ended is told to whoever submitted it"}
    if end["status"] == "done":
        return {"state": "done"}
    if end.get("refused"):
        return {"state": f"refused by {', '.join(end['refused'])}", "why": end["message"]}
    word = "diverged" if end.get("kind") == "DivergedError" else "failed"
    return {"state": word, "why": end["message"]}
