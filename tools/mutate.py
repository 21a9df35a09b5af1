"""Mutation testing: which small mistakes in the code do the tests not find?

    python -m tools.mutate algorithms operators --sample 100 --seed 0
    python -m tools.mutate algorithms/minimax/moving.py
    python -m tools.mutate --table

Each mutant (`mutants.py` says what these are) meets the tests that belong to its folder and call
the function that it is in, the quickest first, until one fails (`trials.py`). Results go to a file
of JSON lines, from which a run that was stopped goes on; `--again` tries the survivors once more,
and the table shows the shares of the first and of the last result of each mutant.

Why no library: mutmut 3 keeps all mutants of a method beside it in its class, and here the public
methods of a class are what clients may be asked for; it also stumbles over pytest 9. cosmic-ray
runs one command for all files, in an interpreter of its own for every mutant, and importing JAX,
fedloom and pytest takes three seconds each time.
"""

import argparse
import json
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.mutants import Mutant, mutants_of
from tools.trials import HERE, PACKAGE, attempts, warm_up

RESULTS = HERE / "docs" / "verification" / "mutants.jsonl"
# The laws are left out: they compile every method, and hold it to the engines, not to its paper.
_ENGINE = [
    "core/test_simulator.py",
    "core/test_hub.py",
    "core/test_wire.py",
    "core/test_many.py",
    "core/test_problems.py",
]
TESTS = {  # the longest prefix of a path counts
    "algorithms/averaging": [
        *("papers/test_averaging.py", "papers/test_averaging_baselines.py"),
        *("papers/test_optimisers.py", "papers/test_partial_participation.py"),
    ],
    "algorithms/composite": ["papers/test_composite.py", "papers/test_composite_baselines.py"],
    "algorithms/minimax": [
        *("papers/test_minimax.py", "papers/test_minimax_listings.py"),
        *("papers/test_minimax_baselines.py", "papers/test_resolvent.py"),
    ],
    "algorithms/personal": [
        *("papers/test_personal.py", "papers/test_personal_baselines.py"),
        "papers/test_straight_through.py",
    ],
    "algorithms/robust": [
        *("papers/test_robust.py", "papers/test_robust_limits.py"),
        "papers/test_robust_baselines.py",
    ],
    "algorithms/vertical": [
        *("papers/test_vertical.py", "papers/test_vertical_steps.py", "papers/test_splitting.py"),
        *("papers/test_vertical_baselines.py", "papers/test_vertical_rates.py"),
    ],
    "algorithms/wrappers/compressed": ["core/test_compressors.py", "core/test_wrappers.py"],
    "algorithms/wrappers": ["core/test_wrappers.py", "core/test_robust_wrapper.py"],
    "operators/aggregators": ["core/test_aggregators.py"],
    "operators/blocks": ["core/test_vertical_parts.py", "papers/test_vertical.py"],
    "operators/compressors": ["core/test_compressors.py", "papers/test_vertical.py"],
    "operators/proximal": ["core/test_proximal.py"],
    "operators/quantisers": ["core/test_quantisers.py", "papers/test_straight_through.py"],
    "operators/simplex": ["core/test_simplex.py"],
    "problems": [
        *("core/test_problems.py", "core/test_losses.py", "core/test_metrics.py"),
        *("core/test_proximal.py", "papers/test_averaging.py"),
    ],
    "problems/adversarial": ["papers/test_minimax.py", "core/test_deploy_any.py"],
    "problems/auc": ["papers/test_minimax.py", "papers/test_minimax_listings.py"],
    "problems/augmentation": ["core/test_augmentation.py"],
    "problems/bilinear": ["papers/test_minimax.py"],
    "problems/cox": ["core/test_losses.py"],
    "problems/losses": ["core/test_vertical_parts.py", "papers/test_vertical.py"],
    "problems/personal": ["papers/test_personal.py"],
    "problems/saddle": ["papers/test_minimax.py", "papers/test_minimax_listings.py"],
    "problems/vertical": [
        *("core/test_vertical_parts.py", "papers/test_vertical.py", "papers/test_splitting.py"),
    ],
    "draws": ["core/test_draws.py"],
    "rounds": _ENGINE,
    "rounds/given": [*_ENGINE, "core/test_mistakes.py"],
    "rounds/mapping": [*_ENGINE, "core/test_cohorts.py"],
    "rounds/parts": [*_ENGINE, "core/test_memory.py", "core/test_divided_rows.py"],
    "exchange": _ENGINE,
    "exchange/expected": [*_ENGINE, "core/test_expected.py"],
    "exchange/secure": [
        "federation/test_secure.py",
        "federation/test_active_server.py",
        "federation/test_sums_once.py",
    ],
    "measuring": _ENGINE,
    "measuring/evaluation": [*_ENGINE, "papers/test_composite.py"],
    "measuring/joint_evaluation": ["core/test_vertical_parts.py", "papers/test_vertical.py"],
    "measuring/optimum": ["core/test_reference.py"],
    "measuring/party_scores": ["core/test_vertical_parts.py", "papers/test_vertical.py"],
    "measuring/prediction": ["core/test_vertical_parts.py"],
    "measuring/reference": ["core/test_reference.py"],
    "measuring/result": ["core/test_simulator.py", "reports/test_notebook.py"],
    "simulator": [*_ENGINE, "preparation/test_party_files.py"],
    "rounds/crew": ["core/test_crew.py"],
    "rounds/meetings": ["core/test_crew.py"],
    "rounds/native_meetings": ["core/test_native_meetings.py", "core/test_crew.py"],
    "simulator/all_cores": [*_ENGINE, "core/test_all_cores.py"],
    # Two processes that a test starts do not meet the mutant.
    "simulator/hosts": [*_ENGINE, "core/test_hosts.py"],
    "simulator/lanes": [*_ENGINE, "core/test_memory.py"],
    "simulator/places": [*_ENGINE, "core/test_on_disk.py"],
}
# Catalogues hold data.
_NOT_MUTATED = ("__init__.py", "catalogue.py", "entry.py")


def chosen_mutants(targets: Sequence[str], sample: int | None, seed: int) -> list[Mutant]:
    """The mutants of files and folders in random order; a larger sample goes on from a smaller."""
    paths = [str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))]
    every = [
        mutant
        for path in paths
        if path.startswith(tuple(targets)) and not any(part in path for part in _NOT_MUTATED)
        for mutant in mutants_of(PACKAGE, path)
    ]
    random.Random(seed).shuffle(every)
    return every[:sample]


def tests_of(path: str) -> list[str]:
    """The files of tests that belong to a file of the package."""
    return TESTS[max((prefix for prefix in TESTS if path.startswith(prefix)), key=len)]


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Shares by folder: of the first results, and of the last."""
    first: dict[str, dict[str, Any]] = {}
    last: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["id"], row)
        last[row["id"]] = row
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for name, row in last.items():
        for folder in (str(Path(row["path"]).parent), "all of " + Path(row["path"]).parts[0]):
            for k, one in enumerate((True, first[name]["killed"], row["killed"])):
                counts[folder][k] += one
    lines = ["| folder | mutants | killed at first | killed now |", "| --- | --- | --- | --- |"]
    for folder, (total, before, now) in sorted(counts.items()):
        shares = f"{before} ({before / total:.0%}) | {now} ({now / total:.0%})"
        lines.append(f"| {folder} | {total} | {shares} |")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="tools.mutate")
    parser.add_argument("targets", nargs="*", help="folders and files of src/fedloom")
    parser.add_argument("--sample", type=int, help="how many mutants; all of them if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at once")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--table", action="store_true", help="only show the shares")
    options = parser.parse_args()
    os.chdir(HERE)
    rows = []
    if options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    latest = {row["id"]: row["killed"] for row in rows}
    mutants = [] if options.table else chosen_mutants(options.targets, options.sample, options.seed)
    warm_up()
    wanted = [
        mutant
        for mutant in mutants
        if mutant.id not in latest or (options.again and not latest[mutant.id])
    ]
    for row in attempts(wanted, tests_of, options.jobs):
        rows.append(row)
        print("killed  " if row["killed"] else "SURVIVED", row["seconds"], row["id"], flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
