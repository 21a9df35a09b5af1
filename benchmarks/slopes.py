"""How what is measured follows what is varied, where papers claim an order: raw results as JSON.

    python -m benchmarks.slopes composite-floors

writes docs/reproductions/raw/composite-floors.json, from which `python -m tools.reproductions`
makes the table with slopes of straight lines through logarithms. What is varied and measured is in
the modules of `benchmarks/slope_studies.py`. The problems are small, most of them made on the spot.
"""

import argparse
import json
import os
import platform
from datetime import date
from pathlib import Path

from benchmarks.slope_studies import STUDIES
from fedloom.experiments.folder import versions

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"


def measure(name: str) -> dict[str, object]:
    """All points of a study, with what is to be known of them."""
    study = STUDIES[name]
    points = []
    for point in study.points():
        print(json.dumps(point._asdict()), flush=True)
        points.append(point._asdict())
    return {
        "study": name,
        "command": f"python -m benchmarks.slopes {name}",
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": {package: v for package, v in versions().items() if package != "fedloom"},
        "varied": study.varied,
        "measured": study.measured,
        "by_theory": study.by_theory,
        "log": study.log or study.by_theory is not None,
        "points": points,
    }


def text(found: dict[str, object]) -> str:
    """A file of raw results, a point in a line."""
    head = json.dumps({k: v for k, v in found.items() if k != "points"}, indent=2)
    lines = ",\n".join(f"    {json.dumps(point)}" for point in found["points"])  # type: ignore[attr-defined]
    return f'{head[:-2]},\n  "points": [\n{lines}\n  ]\n}}\n'


def main() -> None:
    """Run the named studies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="+", choices=STUDIES)
    for name in parser.parse_args().studies:
        (RAW / f"{name}.json").write_text(text(measure(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
