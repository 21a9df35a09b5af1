"""Jobs left behind by a server that was killed, which FLARE would list as running for ever."""

import json

from fedloom.federation.kits import Kit
from fedloom.files import write_text

JOBS = "jobs"  # folder of the server's kit, in which FLARE keeps them
_BEGUN = ("DISPATCHED", "RUNNING")
_ENDED = "FINISHED:ABORTED"


def end_abandoned(kit: Kit) -> list[str]:
    """Mark every job that had begun as ended. No server may be running."""
    ended = []
    for file in sorted((kit.path / JOBS).glob("*/meta")):
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            begun = facts["status"] in _BEGUN
        except (OSError, ValueError, LookupError, TypeError):
            continue  # FLARE says what is wrong with a job that it cannot read
        if begun:
            write_text(file, json.dumps({**facts, "status": _ENDED}))
            ended.append(file.parent.name)
    return ended
