"""Fresh processes: the same programs in many orders, with an empty and with a filled cache.

Compiled programs are kept by the structure of their arguments, in the process and on disk. Where
a cache hands out the program of another class, or where what a compiler makes differs from time to
time, it depends on what ran before; so each process runs look-alikes in an order of its own.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.algorithms.catalogue import CATALOGUE
from verification import ROOT
from verification.process import ENGINES

TOGETHER = 4  # programs in a process
LIMIT = 900  # seconds that a process may take


class Ran(NamedTuple):
    """A process that has ended."""

    order: tuple[str, ...]
    cache: str  # "empty" or "filled"
    hashes: dict[str, str]


class Difference(NamedTuple):
    """A program whose hashes are not all equal."""

    program: str
    by_hash: dict[str, list[Ran]]

    def __str__(self) -> str:
        lines = [f"{self.program}: {len(self.by_hash)} different outcomes"]
        for found, processes in self.by_hash.items():
            lines.append(f"  {found[:200]}")
            lines += [f"    {ran.cache} cache: {' '.join(ran.order)}" for ran in processes]
        return "\n".join(lines)


def batches(keys: Sequence[str], seed: int) -> Iterator[list[str]]:
    """Programs for one set of processes each: some of one family, which look alike the most."""
    chance = random.Random(seed)
    families: dict[str, list[str]] = {}
    for key in keys:
        programs = [f"{key}:{engine}" for engine in ENGINES]
        families.setdefault(CATALOGUE[key].family, []).extend(programs)
    found = []
    for programs in families.values():
        chance.shuffle(programs)
        found += [programs[i : i + TOGETHER] for i in range(0, len(programs), TOGETHER)]
    chance.shuffle(found)
    yield from found


def run_all(
    programs: Sequence[str],
    count: int,
    seed: int,
    deadline: float,
    show: Callable[[str, Any], None],
    jobs: int = 1,
) -> list[Ran]:
    """Run programs in `count` fresh processes, or in as many as there is time for (two at least).

    The first process finds its cache empty and fills it; of the others, every second one gets that
    cache, and the rest an empty one each. After the first, `jobs` of them run side by side.
    """
    chance = random.Random(seed)
    orders = [chance.sample(list(programs), len(programs)) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:

        def played(number: int) -> Ran | None:
            if number >= 2 and time.monotonic() > deadline:
                return None
            order = orders[number]
            show("fresh processes", f"{number + 1} of {count}: {' '.join(order)}")
            own = number and number % 2 == 0
            cache = Path(folder) / (f"empty {number}" if own else "filled")
            kind = "empty" if number % 2 == 0 else "filled"
            return Ran(tuple(order), kind, fresh(order, cache))

        with ThreadPoolExecutor(jobs) as pool:
            ran = [played(0), *pool.map(played, range(1, count))]
    return [one for one in ran if one is not None]


def fresh(order: Sequence[str], cache: Path) -> dict[str, str]:
    """The hashes that one fresh process computes."""
    command = [sys.executable, "-m", "verification.process", *order]
    environment = os.environ | {"FEDLOOM_CACHE": str(cache)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(order, f"no answer within {LIMIT} seconds")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return dict.fromkeys(order, f"exit {done.returncode}: {lines[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def differences(ran: Sequence[Ran]) -> list[Difference]:
    """The programs that did not compute the same everywhere, or that failed."""
    found = []
    for program in sorted({program for one in ran for program in one.hashes}):
        by_hash: dict[str, list[Ran]] = {}
        for one in ran:
            if program in one.hashes:
                by_hash.setdefault(one.hashes[program], []).append(one)
        failed = any(len(outcome) != 64 for outcome in by_hash)  # not a hash: a message
        if len(by_hash) > 1 or failed:
            found.append(Difference(program, by_hash))
    return found
