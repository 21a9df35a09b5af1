"""`python -m verification`: see the package's docstring."""

import argparse
import os
import sys
import time
from pathlib import Path

from fedloom.algorithms.catalogue import CATALOGUE, entry
from verification import __doc__ as about
from verification import compiler, processes, search
from verification.look_alikes import look_alikes, pytree_classes
from verification.report import Report

SEARCHING = 0.6  # the part of the time that random federations get; fresh processes get the rest


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m verification",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long, about (default: 5)")
    parser.add_argument("--seed", type=int, help="repeats a verification (default: another each)")
    parser.add_argument("--methods", nargs="+", metavar="KEY", help="these methods only")
    parser.add_argument("--processes", type=int, default=20, help="fresh processes for a program")
    parser.add_argument("--jobs", type=int, default=1, help="of them run side by side")
    parser.add_argument(
        "--all", action="store_true", help="every program in fresh processes, however long it takes"
    )
    parser.add_argument("--out", type=Path, default=Path("verify"), help="folder of the results")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Verify; returns 1 where anything disagrees."""
    asked = arguments(given)
    seed = time.time_ns() % 2**32 if asked.seed is None else asked.seed
    keys = [entry(key).key for key in asked.methods or CATALOGUE]
    os.environ["FEDLOOM_CACHE"] = "off"  # what is drawn here is not met again
    report = Report(asked.out, asked.minutes)
    report.console.print(f"seed {seed}")
    end = report.began + report.seconds
    try:
        with report.progress:
            report.take_look_alikes(look_alikes(pytree_classes()))
            report.show("compiler", "mapped programs against NumPy")
            report.take_compiler(list(filter(None, map(compiler.wrong, compiler.programs()))))
            searching = report.began + SEARCHING * report.seconds
            for visit in search.search(keys, seed, searching, report.show):
                report.take_visit(visit)
            for number, programs in enumerate(processes.batches(keys, seed)):
                if number and time.monotonic() > end and not asked.all:
                    break
                until = float("inf") if asked.all else end
                ran = processes.run_all(
                    programs, asked.processes, seed + number, until, report.show, asked.jobs
                )
                report.take_processes(ran, processes.differences(ran))
    except KeyboardInterrupt:
        report.console.print("interrupted; this is what was done")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
