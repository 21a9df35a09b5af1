"""Readers of text files beside those of scikit-learn and Polars: time and memory, in turns.

    python -m benchmarks.readers [--rows 200000] [--repeats 5] [--out FILE]

Writes LIBSVM text (about 40 pairs a line) and a CSV table (20 columns of numbers, one of words) to
a temporary folder. Every reading is a process of its own that has imported what it needs before the
clock starts; peak is what it held at most beyond that. Prints one JSON line for each reading, then
for each file the medians of the ratios of neighbours: above 1, fedloom is quicker or needs less.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

PAIRS, WIDTH, COLUMNS = 40, 10_000, 20
WORDS = "Polars, the same words missing"  # null_values, which fedloom's tables know by default
THEIRS = {"libsvm": ("scikit-learn",), "csv": ("Polars", WORDS)}


def fedloom_libsvm() -> Callable[[Path], Any]:
    import scipy.sparse  # noqa: F401, loaded at the first reading

    from fedloom.data.libsvm import read_libsvm

    return read_libsvm


def sklearn_libsvm() -> Callable[[Path], Any]:
    from sklearn.datasets import load_svmlight_file

    return lambda path: load_svmlight_file(path, zero_based=False)


def fedloom_csv() -> Callable[[Path], Any]:
    from fedloom.data.frames import read_frame

    return read_frame


def polars_csv() -> Callable[[Path], Any]:
    import polars as pl

    return pl.read_csv


def polars_csv_with_words() -> Callable[[Path], Any]:
    import polars as pl

    from fedloom.data.csv_files import MISSING

    return lambda path: pl.read_csv(path, null_values=list(MISSING))


READERS = {
    ("libsvm", "fedloom"): fedloom_libsvm,
    ("libsvm", "scikit-learn"): sklearn_libsvm,
    ("csv", "fedloom"): fedloom_csv,
    ("csv", "Polars"): polars_csv,
    ("csv", WORDS): polars_csv_with_words,
}


def write_libsvm(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for label in rng.integers(0, 2, rows):
            places = np.unique(rng.integers(1, WIDTH + 1, PAIRS))
            values = rng.normal(size=len(places))
            pairs = " ".join(f"{j}:{v:.6g}" for j, v in zip(places, values, strict=True))
            file.write(f"{label} {pairs}\n")


def write_csv(path: Path, rows: int) -> None:
    import polars as pl

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{j}": rng.normal(size=rows).round(6) for j in range(COLUMNS)}
    columns |= {"place": rng.choice(["north", "south", "east"], rows)}
    pl.DataFrame(columns | {"y": rng.integers(0, 2, rows)}).write_csv(path)


def held(which: str) -> float:
    """Megabytes of this process: VmRSS now, VmHWM at most since the mark was reset; on Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(which))) / 1024


def measure(kind: str, reader: str, path: Path) -> dict[str, Any]:
    """Read in this process, after a small file that loads what is loaded late."""
    read = READERS[kind, reader]()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / path.name
        (write_libsvm if kind == "libsvm" else write_csv)(small, 10)
        read(small)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, wall, cpu = held("VmRSS"), time.perf_counter(), time.process_time()
    kept = read(path)
    line = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    del kept
    return {k: round(v, 3) for k, v in line.items()} | {"peak MB": round(held("VmHWM") - before)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    parser.add_argument("--here", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        kind, reader, path = chosen.here
        print(json.dumps(measure(kind, reader, Path(path))))
        return

    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        files = {"libsvm": Path(folder) / "rows.svm", "csv": Path(folder) / "rows.csv"}
        write_libsvm(files["libsvm"], chosen.rows)
        write_csv(files["csv"], chosen.rows)
        for kind, path in files.items():
            megabytes = round(path.stat().st_size / 1e6)
            turns = []
            for _ in range(chosen.repeats):
                turns.append({})
                for reader in ("fedloom", *THEIRS[kind]):
                    here = [sys.executable, "-m", "benchmarks.readers", "--here"]
                    done = subprocess.run(
                        [*here, kind, reader, str(path)], check=True, capture_output=True, text=True
                    )
                    turns[-1][reader] = json.loads(done.stdout.splitlines()[-1])
                    tell({"file": kind, "MB": megabytes, "reader": reader} | turns[-1][reader])
            for theirs in THEIRS[kind]:
                ratios = {
                    name: round(median(t[theirs][name] / t["fedloom"][name] for t in turns), 2)
                    for name in ("seconds", "cpu", "peak MB")
                }
                tell({"file": kind, "beside": theirs, "ratio": ratios})


if __name__ == "__main__":
    main()
