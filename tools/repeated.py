"""The whole suite, so many times in a row: `python -m tools.repeated --times 10`.

A suite that fails once in ten runs is not one to trust. Every run is a line of OUT: what passed and
failed, the seconds that it took, what it held in memory, and how busy the machine was with it and
with other work; why a test failed is printed. With `--empty` each run begins with an empty cache,
as on a fresh clone.
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from importlib.metadata import version
from pathlib import Path
from typing import Any

OUT = Path("docs/verification/suite.jsonl")
SUITE = ("-m", "pytest", "-n", "auto", "--maxprocesses", "4")  # as `make test` has it


def run(empty: bool) -> dict[str, Any]:
    """Run the suite once."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        cache = {"FEDLOOM_CACHE": f"{folder}/cache"} if empty else {}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        ended = subprocess.run(
            [sys.executable, *SUITE, f"--junitxml={told}"],
            env=os.environ | cache,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            **_outcome(told),
            "status": ended.returncode,
            "seconds": round(seconds),
            "user": round(after.ru_utime - before.ru_utime),
            "system": round(after.ru_stime - before.ru_stime),
            "gigabytes": [float(peak) for peak in _peaks(ended.stdout)],
            "load": [round(load, 1) for load in os.getloadavg()],
        }


def _outcome(told: Path) -> dict[str, Any]:
    """How many tests passed and were skipped, and which failed."""
    if not told.exists():  # pytest did not come to its end
        return {"passed": 0, "skipped": 0, "failed": ["the suite itself"]}
    cases = list(xml.etree.ElementTree.parse(told).iter("testcase"))
    wrong = [case for case in cases if {"failure", "error"} & {part.tag for part in case}]
    skipped = [case for case in cases if case.find("skipped") is not None]
    for part in (part for case in wrong for part in case if part.tag in ("failure", "error")):
        print(part.text, file=sys.stderr, flush=True)
    return {
        "passed": len(cases) - len(wrong) - len(skipped),
        "skipped": len(skipped),
        "failed": [f"{case.get('classname')}::{case.get('name')}" for case in wrong],
    }


def _peaks(printed: str) -> list[str]:
    held = re.search(r"^Most memory that each worker held, in GB: (.*)$", printed, re.MULTILINE)
    return held[1].split(", ") if held else []


def main() -> int:
    """Run the suite, and keep a line of each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--empty", action="store_true", help="a cache that is empty, each time")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--note", default="", help="what else the machine has to do")
    chosen = parser.parse_args()
    asked = ["git", "describe", "--always", "--dirty"]
    about = {
        "commit": subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip(),
        "python": platform.python_version(),
        "jax": version("jax"),
        "cores": os.cpu_count(),
        "cache": "empty" if chosen.empty else "kept",
        "note": chosen.note,
    }
    statuses = []
    for _ in range(chosen.times):
        began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = {"began": began, **about, **run(chosen.empty)}
        with chosen.out.open("a", encoding="utf-8") as kept:
            kept.write(json.dumps(line) + "\n")
        print(line, flush=True)
        statuses.append(line["status"])
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
