"""What it costs to begin: seconds of user CPU time of fresh processes, the median of several.

python -m benchmarks.starting                       # this checkout
python -m benchmarks.starting --beside ../older     # and another one, in turns
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_CLI = ["-m", "fedloom.cli.main"]
_OUT = "OUT"  # stands for a new folder
_ONE_ROUND = ["run", "examples/digits.toml", "--set", "run.rounds=1", "--out", _OUT]
STARTS = {
    "import fedloom": ["-c", "import fedloom"],
    "fedloom --version": [*_CLI, "--version"],
    "fedloom list algorithms": [*_CLI, "list", "algorithms"],
    "fedloom run --help": [*_CLI, "run", "--help"],
    # One round of SCAFFOLD; the first of these processes may have to compile its programs.
    "fedloom run": [*_CLI, *_ONE_ROUND],
}


def seconds(arguments: list[str], source: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, *(f"{folder}/run" if word == _OUT else word for word in arguments)],
            env=os.environ | {"PYTHONPATH": str(source.resolve() / "src")},
            cwd=source,
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.starting")
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turns")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    here = Path(__file__).parents[1]
    places = {"here": here} | ({"beside": options.beside} if options.beside else {})
    for name, arguments in STARTS.items():
        taken: dict[str, list[float]] = {place: [] for place in places}
        for _ in range(options.times):
            for place, source in places.items():
                taken[place].append(seconds(arguments, source))
        medians = {place: round(statistics.median(found), 2) for place, found in taken.items()}
        print(json.dumps({"start": name, **medians}), flush=True)


if __name__ == "__main__":
    main()
