"""What newer methods add to a family, for docs/choosing.md: `python -m tools.baselines averaging`.

Runs examples/baselines-FAMILY.toml as `fedloom compare` does. Leaves every evaluation as a line of
docs/verification/baselines-FAMILY.jsonl, and the metrics of [compare] as a picture,
docs/images/baselines-FAMILY.svg.
"""

import argparse
import json
from pathlib import Path

from fedloom.experiments import comparing, settings
from fedloom.files import write_text
from fedloom.pictures.curves import curves

ROOT = Path(__file__).parents[1]
COSTS = ("round", "bytes_up", "bytes_down")


def run(family: str) -> None:
    """Compare the methods of a family; leave raw lines and the picture."""
    name = f"baselines-{family}"
    setup = settings.read(ROOT / "examples" / f"{name}.toml")
    options, how = setup.options(), setup.compare
    shown = tuple(how.metrics)
    first = options.pop("seed")
    seeds = range(first, first + how.seeds)
    found = comparing.compare(
        setup.algorithms, setup.problem, setup.clients(), seeds=seeds, metric=shown[0], **options
    ).results
    lines = [
        json.dumps(
            {"method": method, "seed": seed}
            | {column: row[column] for column in COSTS}
            | {column: float(f"{row[column]:.5g}") for column in shown}
        )
        for method, runs in found.items()
        for seed, result in zip(seeds, runs, strict=True)
        for row in result.rows
    ]
    write_text(
        ROOT / "docs" / "verification" / f"{name}.jsonl", "\n".join(lines) + "\n", shared=True
    )
    drawn = shown[:1] if how.log else shown  # a share that may be zero has no logarithm
    picture = ROOT / "docs" / "images" / f"{name}.svg"
    curves(found, picture, metrics=drawn, against=how.against, log=how.log, title=how.title)


def main() -> None:
    """The families that are named, one after the other."""
    parser = argparse.ArgumentParser(prog="tools.baselines")
    parser.add_argument("family", nargs="+", help="as in examples/baselines-FAMILY.toml")
    for family in parser.parse_args().family:
        run(family)


if __name__ == "__main__":
    main()
