"""A comparison's record for the documentation, from what `fedloom compare` left in a folder.

    fedloom compare examples/baselines-split.toml --out runs/split
    python -m tools.comparison_record runs/split baselines-split --metrics loss accuracy

writes docs/verification/NAME.jsonl, a line for each method, seed and tenth evaluation, and
docs/images/NAME.svg, the first of the metrics against the axis of the comparison's settings.
"""

import argparse
import json
import tomllib
from pathlib import Path

import fedloom as fl
from fedloom.pictures import curves

ROOT = Path(__file__).parents[1]
EVERY = 10  # evaluations


def main() -> None:
    """Read the results, and write both files."""
    parser = argparse.ArgumentParser(prog="tools.comparison_record")
    parser.add_argument("folder", type=Path, help="of the comparison")
    parser.add_argument("name", help="of the files")
    parser.add_argument("--metrics", nargs="+", required=True, help="columns of the history")
    asked = parser.parse_args()
    tables = tomllib.loads((asked.folder / "settings.toml").read_text(encoding="utf-8"))
    methods = [entry.get("name", entry["key"]) for entry in tables["algorithm"]]
    results = {
        name: [fl.load(seed) for seed in sorted((asked.folder / name).glob("seed-*"))]
        for name in methods
    }
    columns = ("round", "bytes_up", "bytes_down", *asked.metrics)
    lines = [
        json.dumps({"method": name, "seed": seed, **{c: row[c] for c in columns}})
        for name, runs in results.items()
        for seed, run in enumerate(runs)
        for row in run.rows[::EVERY]
    ]
    record = ROOT / "docs" / "verification" / f"{asked.name}.jsonl"
    record.write_text("\n".join(lines) + "\n", encoding="utf-8")
    how = {name: tables["compare"][name] for name in ("against", "log")}
    picture = curves.draw(results, metrics=asked.metrics[:1], **how)
    picture.save(ROOT / "docs" / "images" / f"{asked.name}.svg")


if __name__ == "__main__":
    main()
