"""`fedloom sweep SETTINGS.toml`: search for good settings, then compare the best of each method."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedloom.cli.live import LiveTable
from fedloom.cli.output import show_json, show_table
from fedloom.cli.run import add_common, add_source, chosen
from fedloom.data.parties import Holders, Parties
from fedloom.experiments import building, comparing, running, searching
from fedloom.experiments.comparing import Comparison
from fedloom.experiments.settings import Settings
from fedloom.experiments.sweeping import Sweep, sweep
from fedloom.files import write_text
from fedloom.measuring.result import Result

Options = dict[str, Any]  # of a run


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_source(parser)
    add_common(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    setup, out = chosen(arguments)
    seeds = range(setup.run.seed, setup.run.seed + setup.compare.seeds)
    clients, options = setup.clients(), setup.options()
    del options["seed"]
    with running.run_folder(setup, out, resume=arguments.resume is not None):
        try:
            found = _search(setup, clients, seeds, out, options)
        except KeyboardInterrupt:
            print(f"kept in {out}; go on with `fedloom sweep --resume {out}`", file=sys.stderr)
            return 130
        _keep(found, out)
        compared = _compare(found, clients, seeds, out, options)
    rows = [
        {"method": name, **found.best[name].setting, **row}
        for name, row in zip(found.best, compared.table(setup.compare.target), strict=True)
    ]
    if arguments.format == "json":
        show_json({"trials": found.rows, "best": rows})
        return 0
    show_table(_ordered(found), title=f"{found.metric} on held-out training rows")
    tested = clients.test_y if isinstance(clients, Parties) else clients.test
    where = "training rows" if tested is None else "test rows"
    columns = ("method", *setup.over, found.metric, "spread", "bytes up", "bytes down")
    show_table(rows, title=f"The best of each method, trained anew, on {where}", columns=columns)
    print(f"kept in {out}")
    return 0


def _search(
    setup: Settings, clients: Holders, seeds: range, out: Path, options: dict[str, Any]
) -> Sweep:
    """Run the trials behind a progress bar."""
    chosen = {name: getattr(setup.sweep, name) for name in building.describe(setup.sweep)}
    names = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    bar = Progress(*names, TimeRemainingColumn(), console=Console(stderr=True))
    options = {name: value for name, value in options.items() if name != "checkpoint_seconds"}
    with bar:
        task = bar.add_task("trials", total=_runs(setup, len(seeds)))

        def tried(label: str, seed: int, value: float) -> None:
            shown = "diverged" if math.isnan(value) else f"{value:.4g}"
            bar.update(task, advance=1, description=f"{label}, seed {seed}: {shown}")

        return sweep(
            setup.algorithms,
            setup.problem,
            clients,
            over=setup.over,
            seeds=seeds,
            out=out,
            tried=tried,
            **chosen,
            **options,
        )


def _runs(setup: Settings, seeds: int) -> int | None:
    """How many runs there will be; unknown beforehand where some are stopped early."""
    if setup.sweep.halving:
        return None
    searching.check_keys(setup.over, setup.algorithms, setup.problem)
    counts = [
        setup.sweep.trials
        if setup.sweep.search == "random"
        else len(searching.grid(searching.concerning(setup.over, *method, setup.problem)))
        for method in setup.algorithms.items()
    ]
    return seeds * sum(counts)


def _compare(
    found: Sweep, clients: Holders, seeds: range, out: Path, options: dict[str, Any]
) -> Comparison:
    """Train the best setting of each method on all training rows."""
    results: dict[str, list[Result]] = {}
    with LiveTable(found.metric, options["rounds"]) as table:
        for name, trial in found.best.items():
            compared = comparing.compare(
                {name: trial.algorithm},
                trial.problem,
                clients,
                seeds=seeds,
                metric=found.metric,
                out=out / "best",
                watch=table.watch,
                **options,
            )
            results |= compared.results
    return Comparison(results, found.metric)


def _keep(found: Sweep, out: Path) -> None:
    best = {name: trial.setting for name, trial in found.best.items()}
    write_text(out / "best.json", json.dumps(best, indent=2) + "\n", shared=True)


def _ordered(found: Sweep) -> list[dict[str, Any]]:
    """The trials by method, the best first."""
    sign = -1 if found.larger_is_better else 1
    last = math.inf

    def rank(row: dict[str, Any]) -> tuple[str, float]:
        value = row[found.metric]
        return row["method"], last if math.isnan(value) else sign * value

    return sorted(found.rows, key=rank)
