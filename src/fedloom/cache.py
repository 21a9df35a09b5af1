"""Where fedloom keeps what it can make or fetch again: compiled programs and downloads."""

import os
from pathlib import Path


def cache_folder(part: str) -> Path | None:
    """The folder for "programs" or "data": below $FEDLOOM_CACHE, by default ~/.cache/fedloom.

    None where FEDLOOM_CACHE is "off": nothing is kept.
    """
    named = os.environ.get("FEDLOOM_CACHE") or "~/.cache/fedloom"
    return None if named == "off" else Path(named).expanduser() / part
