"""`python -m verification.fresh`: every program in many fresh processes, with equal hashes.

The part of a verification that needs nothing but JAX: on an accelerator, for example, with as many
processes side by side as there are cores.

    python -m verification.fresh --processes 20 --jobs 15 --out fresh.jsonl

Programs that have had as many processes on this device in that file are not run again, but are
compared: what differs there differs in every call.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import jax

from fedloom.algorithms.catalogue import CATALOGUE, entry
from verification import processes


def main() -> int:
    """Run them; returns 1 where hashes differ."""
    parser = argparse.ArgumentParser(prog="python -m verification.fresh")
    parser.add_argument("--methods", nargs="+", metavar="KEY", help="these methods only")
    parser.add_argument("--processes", type=int, default=20, help="fresh processes for a program")
    parser.add_argument("--jobs", type=int, default=1, help="of them run side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after")
    parser.add_argument("--seed", type=int, default=5, help="of the orders")
    parser.add_argument("--out", type=Path, default=Path("verify/fresh.jsonl"))
    asked = parser.parse_args()
    keys = [entry(key).key for key in asked.methods or CATALOGUE]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    end, ended = time.monotonic() + asked.seconds, _earlier(asked.out, keys)
    done = Counter(program for one in ended for program in one.hashes)
    with asked.out.open("a", encoding="utf-8") as out:
        for number, every in enumerate(processes.batches(keys, asked.seed)):
            programs = [program for program in every if done[program] < asked.processes]
            if not programs:
                continue
            if time.monotonic() > end:
                print(f"no time left for {' '.join(programs)}")
                continue
            ran = processes.run_all(
                programs, asked.processes, asked.seed + number, float("inf"), _quiet, asked.jobs
            )
            ended += ran
            for one in ran:
                out.write(json.dumps({"device": _device(), **one._asdict()}) + "\n")
            out.flush()  # what was found is kept, however this ends
            told = processes.differences(ran) or ["all equal"]
            print(" ".join(programs), len(ran), *told, flush=True)
    wrong = processes.differences(ended)
    for difference in wrong:
        print(difference)
    print(f"{len(ended)} processes on {_device()}, {len(wrong)} programs with different outcomes")
    return 1 if wrong else 0


def _earlier(out: Path, keys: list[str]) -> list[processes.Ran]:
    """The processes of these methods on this device that a file has, and their programs only."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    found = []
    for facts in map(json.loads, lines):
        of_these = {p: h for p, h in facts["hashes"].items() if p.split(":")[0] in keys}
        if facts.pop("device") == _device() and of_these:
            found.append(processes.Ran(tuple(facts["order"]), facts["cache"], of_these))
    return found


def _quiet(stage: str, doing: object) -> None:
    """Nothing: a line is printed for each set of programs."""


def _device() -> str:
    return f"{jax.devices()[0].device_kind}, JAX {jax.__version__}"


if __name__ == "__main__":
    sys.exit(main())
