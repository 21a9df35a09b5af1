"""`python -m verification.damage`: see the package's docstring."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from verification.damage import __doc__ as about
from verification.damage.subjects import SUBJECTS
from verification.damage.trying import FAULTS, table, try_all


def main(given: list[str] | None = None) -> int:
    """Damage and read; returns 1 where a reader fails."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.damage",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=2000, help="cases of each kind of file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, help="these kinds of files only")
    asked = parser.parse_args(given)
    cases, began = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.only or SUBJECTS:
            place = Path(folder) / name
            cases += try_all(SUBJECTS[name], asked.count, asked.seed, place)
    faults = [case for case in cases if case.outcome in FAULTS]
    for case in faults:
        print(case)
    print(table(cases))
    print(f"{len(faults)} faults in {len(cases)} cases, {time.perf_counter() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
