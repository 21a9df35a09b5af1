"""Reproductions on many cores: each run is a process on a core of its own, then all are joined.

    python -m benchmarks.in_parts minimax-a9a vertical-mnist [--workers 15] [--out runs/parts]
    python -m benchmarks.in_parts minimax-a9a --kind search --rounds 100
    python -m benchmarks.in_parts vertical-tuned --kind steps --factor 1.12

The first leaves the file that `fedloom reproduce NAME --raw FILE` writes, the second that of
`fedloom sweep`, the third that of `benchmarks.vertical_steps`, all in docs/reproductions/raw.
A part is a method with a seed, of a search a method. Names are taken in turn, and of a name the
first seed of every method before the second. Parts that are in OUT already are not made again, so
what was cut off goes on, and `--until SECONDS` ends it in time to keep them. A name of which parts
are missing is not joined; with fewer seeds in [compare] its parts are good all the same.
`--together` gives all seeds of a method to one process, which reads and compiles once. `--some`
joins the runs that there are, and raw results then say how many; with `--go-on` the runs of raw
results that are there are not made again, and are joined with the others. `--list` says what is to
be done.
With JAX_COMPILATION_CACHE_DIR seeds of a method share their programs. Nothing here needs Polars or
Matplotlib, but for the readers of some data.
"""

import argparse
import dataclasses
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import joined_parts, vertical_steps
from benchmarks.joined_parts import OPTIMA
from fedloom.experiments import comparing, papers, raw_results, settings
from fedloom.experiments.asking import asked_of, judged_by
from fedloom.experiments.folder import versions
from fedloom.experiments.searching import concerning
from fedloom.experiments.settings import Settings
from fedloom.experiments.sweeping import sweep
from fedloom.files import write_text

KINDS = ("runs", "search", "steps")


class Part(NamedTuple):
    """A method, with a seed where a part is a run."""

    method: str
    seed: int | None = None


class Task(NamedTuple):
    """A part of a name, by its number."""

    name: str
    number: int
    part: Part


def parts(kind: str, setup: Settings) -> list[Part]:
    """What a reproduction, or a search for it, is made of."""
    if kind != "runs":
        return [Part(method) for method in setup.algorithms]
    more = [Part(OPTIMA)] if asked_of(setup).metrics[0] == "auc" else []
    seeds = range(setup.run.seed, setup.run.seed + setup.compare.seeds)
    return more + [Part(method, seed) for seed in seeds for method in setup.algorithms]


def place(out: Path, kind: str, name: str, part: Part) -> Path:
    """Where a part is left."""
    words = part.method.replace(" ", "_").replace(",", "").replace("/", "_")
    seed = "" if part.seed is None else f".{part.seed}"
    return out / f"{name}.{kind}.{words}{seed}.json"


def make(kind: str, name: str, number: int, chosen: Any) -> dict[str, Any]:
    """One part, with where and how long it ran."""
    setup, made_with = settings.read(papers.available()[name]), versions()
    part, began = parts(kind, setup)[number], time.perf_counter()
    made = {"runs": _run, "search": _search, "steps": _steps}[kind](setup, part, chosen)
    return {
        "part": part.method,
        "digest": digest(setup),
        **made,
        "wall": round(time.perf_counter() - began, 1),
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": {package: v for package, v in made_with.items() if package != "fedloom"},
    }


def digest(setup: Settings) -> str:
    """Of the settings that decide what comes out for one seed, however many seeds there are."""
    return raw_results.digest(setup._replace(compare=dataclasses.replace(setup.compare, seeds=1)))


def machine() -> str:
    """What it ran on: a GPU where JAX has one, else the cores of the machine."""
    import jax

    kind = jax.devices()[0].device_kind
    cores = f"{os.cpu_count()} cores, {platform.machine()}"
    return cores if jax.default_backend() == "cpu" else f"one {kind}, {cores}"


def _run(setup: Settings, part: Part, chosen: Any) -> dict[str, Any]:
    metrics = asked_of(setup).metrics
    if part.seed is None:
        return {OPTIMA: raw_results.optima(setup, metrics[0])}
    without = ("checkpoint_seconds", "seed")
    (found,) = comparing.compare(
        {part.method: setup.algorithms[part.method]},
        setup.problem,
        setup.clients_of if setup.compare.redivide else setup.clients(),
        seeds=[part.seed],
        metric=metrics[0],
        **{k: v for k, v in setup.options().items() if k not in without},
    ).results[part.method]
    return {
        "seconds": found.final["seconds"],
        "larger_is_better": found.larger_is_better(metrics[0]),
        "run": raw_results.run_of(part.method, found, None, metrics)._asdict(),
    }


def _search(setup: Settings, part: Part, chosen: Any) -> dict[str, Any]:
    method = {part.method: setup.algorithms[part.method]}
    over = concerning(setup.over, part.method, method[part.method], setup.problem)
    without = ("seed", "rounds", "checkpoint_seconds")
    options = {k: v for k, v in setup.options().items() if k not in without}
    how = {name: getattr(setup.sweep, name) for name in ("validation", "search_seed", "halving")}
    found = sweep(
        method,
        setup.problem,
        setup.clients(),
        over=over,
        seeds=[setup.run.seed],
        metric=judged_by(setup),
        rounds=chosen.rounds,
        **how,
        **options,
    )
    return {"rows": found.rows, "metric": found.metric, "larger_is_better": found.larger_is_better}


def _steps(setup: Settings, part: Part, chosen: Any) -> dict[str, Any]:
    tuner = vertical_steps.Tuner(setup, chosen.seeds)
    method = setup.algorithms[part.method]
    tried = vertical_steps.tune(tuner, part.method, method, chosen.factor, 6000)
    return {"tried": tried, "target": setup.compare.target}


def join(kind: str, name: str, chosen: Any) -> Path:
    """Write the raw results of the parts that are there."""
    setup = settings.read(papers.available()[name])
    files = [place(chosen.out, kind, name, part) for part in parts(kind, setup)]
    made = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    # What a search chose stands in the settings later, so that those of its parts are earlier ones.
    stale = [part["part"] for part in made if kind == "runs" and part["digest"] != digest(setup)]
    if stale:
        raise SystemExit(f"{name}: made with other settings: {', '.join(stale)}")
    write = {"runs": joined_parts.runs, "search": joined_parts.search, "steps": joined_parts.steps}
    return write[kind](name, setup, made, chosen)


def go_on(name: str, out: Path) -> None:
    """Put the runs of raw results among the parts, but for those that are there."""
    setup = settings.read(papers.available()[name])
    for made in joined_parts.taken_apart(name, setup):
        seed = made["run"]["seed"] if "run" in made else None
        path = place(out, "runs", name, Part(made["part"], seed))
        if not path.exists():
            write_text(path, json.dumps({"digest": digest(setup), **made}), shared=True)


def missing(kind: str, names: list[str], out: Path) -> list[Task]:
    """What is still to be made, in the order in which it is."""
    return [
        Task(name, number, part)
        for name in names
        for number, part in enumerate(parts(kind, settings.read(papers.available()[name])))
        if not place(out, kind, name, part).exists()
    ]


def processes(tasks: list[Task], together: bool) -> list[list[Task]]:
    """The tasks by the processes that make them: one each, or the seeds of a method together."""
    if not together:
        return [[task] for task in tasks]
    made = dict[tuple[str, str], list[Task]]()
    for task in tasks:
        made.setdefault((task.name, task.part.method), []).append(task)
    return list(made.values())


def _pool(tasks: list[Task], chosen: Any) -> None:
    """A worker's processes all on one core; at the end of the time all are ended."""
    waiting: queue.Queue[list[Task]] = queue.Queue()
    for process in processes(tasks, chosen.together):
        waiting.put(process)
    end = None if chosen.until is None else time.monotonic() + chosen.until

    def work(core: int) -> None:
        left = None
        while end is None or (left := end - time.monotonic()) > 0:
            try:
                mine = waiting.get_nowait()
            except queue.Empty:
                return
            words = [sys.executable, "-m", "benchmarks.in_parts", mine[0].name]
            words += ["--kind", chosen.kind, "--out", str(chosen.out)]
            words += ["--part", *(str(task.number) for task in mine)]
            for option in ("rounds", "factor", "seeds"):
                words += [f"--{option}", str(getattr(chosen, option))]
            one = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
            one["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # several share a card
            pinned = ["taskset", "-c", str(core), *words]
            try:
                subprocess.run(pinned, env=os.environ | one, check=False, timeout=left)
            except subprocess.TimeoutExpired:
                return

    cores = sorted(os.sched_getaffinity(0))[: chosen.workers]
    threads = [threading.Thread(target=work, args=(core,)) for core in cores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Make a part, or all parts of what is named, and join them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=papers.available(), metavar="NAME")
    parser.add_argument("--kind", choices=KINDS, default="runs")
    parser.add_argument("--out", type=Path, default=Path("runs/parts"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=100, help="of a search")
    parser.add_argument("--factor", type=float, default=1.25, help="between two steps")
    parser.add_argument("--seeds", type=int, default=3, help="with which a step is tried")
    parser.add_argument("--until", type=float, help="seconds after which what runs is ended")
    parser.add_argument("--together", action="store_true", help="a method's seeds in one process")
    parser.add_argument("--part", type=int, nargs="+", help="make these alone, and do not join")
    parser.add_argument("--join", action="store_true", help="join alone")
    parser.add_argument("--some", action="store_true", help="join the runs that there are")
    parser.add_argument("--go-on", action="store_true", help="from the raw results that there are")
    parser.add_argument("--list", action="store_true", help="say what is not made yet")
    chosen: Any = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.part is not None:
        (name,) = chosen.names
        every = parts(chosen.kind, settings.read(papers.available()[name]))
        for number in chosen.part:
            made = json.dumps(make(chosen.kind, name, number, chosen))
            write_text(place(chosen.out, chosen.kind, name, every[number]), made, shared=True)
        return
    for name in chosen.names if chosen.go_on else ():
        go_on(name, chosen.out)
    if not chosen.join and not chosen.list:
        _pool(missing(chosen.kind, chosen.names, chosen.out), chosen)
    lacking = missing(chosen.kind, chosen.names, chosen.out)
    for name, _, part in lacking:
        print(f"not made: {name}, {', '.join(str(x) for x in part if x is not None)}")
    if chosen.some:  # a search, or optima, are of no use in part
        lacking = [task for task in lacking if task.part.seed is None]
    for name in chosen.names:
        if not chosen.list and all(task.name != name for task in lacking):
            print(join(chosen.kind, name, chosen))


if __name__ == "__main__":
    main()
