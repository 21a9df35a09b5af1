"""`fedloom sweep SETTINGS.toml`: search for good settings, then compare the best of each method."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedloom.checksums import write_json
from fedloom.cli.elsewhere import add_workers, goes_on, workers
from fedloom.cli.live import LiveTable
from fedloom.cli.methods_table import FORMATS, add_columns, columns_asked, over_seeds_text, show
from fedloom.cli.output import show_json, show_table
from fedloom.cli.run import add_common, add_source, chosen
from fedloom.data.parties import Holders, Parties
from fedloom.errors import SettingsError
from fedloom.experiments import (
    best_settings,
    building,
    comparing,
    rows_of_methods,
    running,
    searching,
)
from fedloom.experiments.asking import asked_of, judged_by
from fedloom.experiments.folder import SWEEP
from fedloom.experiments.options import SEARCHES
from fedloom.experiments.rows_of_methods import Asked
from fedloom.experiments.settings import Settings
from fedloom.experiments.sweeping import Sweep, sweep
from fedloom.experiments.workers import Workers
from fedloom.files import inside, write_text
from fedloom.measuring.result import Result
from fedloom.pictures import parameters

Options = dict[str, Any]  # of a run


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_source(parser)
    add_common(parser, FORMATS)
    add_columns(parser)
    add_workers(parser)
    parser.add_argument(
        "--sampler", choices=SEARCHES, help="how to search, as `search` of [sweep] does"
    )
    parser.add_argument(
        "--trials",
        type=int,
        metavar="N",
        help="number of settings for each method, unless the search is a grid",
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    how = {"search": arguments.sampler, "trials": arguments.trials}
    changed = [f"sweep.{name}={json.dumps(v)}" for name, v in how.items() if v is not None]
    setup, out = chosen(arguments, [*columns_asked(arguments), *changed])
    if arguments.trials is not None and setup.sweep.search == "grid":
        raise SettingsError(
            f"--trials is for --sampler random or optuna: a grid has all combinations; got "
            f"{arguments.trials}. Leave it out, or add --sampler random."
        )
    asked = _asked(setup)
    if setup.compare.redivide:
        # Rows that test in one division have been used in another to choose the settings.
        raise (setup.place / "compare" / "redivide").error(
            "a sweep has one division, whose test rows no setting is chosen by. Take it out, and "
            "compare the best settings that the sweep leaves with `fedloom compare`."
        )
    seeds = range(setup.run.seed, setup.run.seed + setup.compare.seeds)
    clients, options = setup.clients(), setup.options()
    del options["seed"]
    resume = goes_on(arguments, setup, out)
    with (
        running.run_folder(setup, out, resume=resume),
        workers(arguments, setup, out, judged_by(setup)) as others,
    ):
        try:
            found = _search(setup, clients, seeds, out, options, others)
            left = _keep(setup, found, out)
            results = _compare(found, asked, clients, seeds, out, options, others)
        except KeyboardInterrupt:
            print(f"kept in {out}; go on with `fedloom sweep --resume {out}`", file=sys.stderr)
            return 130
    rows = [
        {"method": name, **found.best[name].setting, **row}
        for name, row in zip(found.best, rows_of_methods.table(results, asked), strict=True)
    ]
    if arguments.format == "json":
        show_json({"trials": found.rows, "best": rows})
        return 0
    if arguments.format == "table":
        show_table(_shown(found), title=f"{found.metric} on held-out training rows")
    tested = clients.test_y if isinstance(clients, Parties) else clients.test
    where = "training rows" if tested is None else "test rows"
    title = f"The best of each method, trained again, on {where}, {over_seeds_text(len(seeds))}"
    show(rows, asked, results, arguments.format, title=title, leading=tuple(setup.over))
    if arguments.format == "table":
        for remark in found.remarks():
            print(remark)
        print(f"kept in {out}: {', '.join(left)}")
    return 0


def _asked(setup: Settings) -> Asked:
    """The columns of the last table: those of [compare], or what the settings are judged by."""
    asked = asked_of(setup)
    judged = judged_by(setup)
    comparing.check_metric(judged, setup.metrics, setup.problem)
    named = setup.compare.metric or setup.compare.metrics
    return asked if named else asked._replace(metrics=(judged,))


def _search(
    setup: Settings,
    clients: Holders,
    seeds: range,
    out: Path,
    options: Options,
    others: Workers | None,
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
            executor=others,
            **chosen | {"metric": judged_by(setup)},
            **options,
        )


def _runs(setup: Settings, seeds: int) -> int | None:
    """How many runs there will be; unknown beforehand where some are stopped early."""
    if setup.sweep.halving:
        return None
    searching.check_keys(setup.over, setup.algorithms, setup.problem)
    counts = [
        setup.sweep.trials
        if setup.sweep.search != "grid"
        else len(searching.grid(searching.concerning(setup.over, *method, setup.problem)))
        for method in setup.algorithms.items()
    ]
    return seeds * sum(counts)


def _compare(
    found: Sweep,
    asked: Asked,
    clients: Holders,
    seeds: range,
    out: Path,
    options: Options,
    others: Workers | None,
) -> dict[str, list[Result]]:
    """Train the best setting of each method on all training rows."""
    results: dict[str, list[Result]] = {}
    with LiveTable(asked.metrics[0], options["rounds"]) as table:
        how: Options = {"executor": others} if others else {"watch": table.watch}
        for name, trial in found.best.items():
            compared = comparing.compare(
                {name: trial.algorithm},
                trial.problem,
                clients,
                seeds=seeds,
                metric=asked.metrics[0],
                out=inside(out, "best"),
                **how,
                **options,
            )
            if compared.stopped:
                raise KeyboardInterrupt
            results |= compared.results
    return results


def _keep(setup: Settings, found: Sweep, out: Path) -> list[str]:
    """Leave what was found: for people, for programs, for a report, and as settings that run."""
    best = {name: trial.setting for name, trial in found.best.items()}
    facts = {
        "metric": found.metric,
        "larger_is_better": found.larger_is_better,
        "over": list(setup.over),
        "trials": _ordered(found),
    }
    write_text(out / "best.json", json.dumps(best, indent=2) + "\n", shared=True)
    write_json(out / SWEEP, facts, shared=True)
    texts = best_settings.files(setup, found)
    for name, text in texts.items():
        write_text(out / name, text, shared=True)
    how = (list(setup.over), found.metric, found.larger_is_better)
    parameters.draw(found.rows, *how).save(out / "sweep.png")
    return [*texts, "sweep.png"]


def _ordered(found: Sweep) -> list[dict[str, Any]]:
    """The trials by method, the best first."""
    sign = -1 if found.larger_is_better else 1
    last = math.inf

    def rank(row: dict[str, Any]) -> tuple[str, float]:
        value = row[found.metric]
        return row["method"], last if math.isnan(value) else sign * value

    return sorted(found.rows, key=rank)


def _shown(found: Sweep) -> list[dict[str, Any]]:
    """The trials without columns in which nothing stands, such as the spread of one seed."""
    rows = _ordered(found)
    names = list(dict.fromkeys(name for row in rows for name in row))
    there = [name for name in names if any(row.get(name) is not None for row in rows)]
    return [{name: row.get(name) for name in there} for row in rows]
