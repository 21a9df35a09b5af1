"""Reproductions on many cores: each method is a process on a core of its own, then all are joined.

    python -m benchmarks.in_parts minimax-a9a vertical-mnist [--workers 15] [--out runs/parts]
    python -m benchmarks.in_parts minimax-a9a --kind search --rounds 100
    python -m benchmarks.in_parts vertical-tuned --kind steps --factor 1.12

The first leaves the file that `fedloom reproduce NAME --raw FILE` writes, the second that of
`fedloom sweep`, the third that of `benchmarks.vertical_steps`, all in docs/reproductions/raw.
Parts that are in OUT already are not made again, so what was cut off goes on. Nothing here needs
Polars or Matplotlib, but for the readers of some data.
"""

import argparse
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
from typing import Any

from benchmarks import vertical_steps
from fedloom.checksums import write_json
from fedloom.experiments import comparing, papers, raw_results, settings
from fedloom.experiments.asking import asked_of, judged_by
from fedloom.experiments.folder import versions
from fedloom.experiments.raw_results import Raw, Run
from fedloom.experiments.searching import concerning
from fedloom.experiments.settings import Settings
from fedloom.experiments.sweeping import sweep

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"
OPTIMA = "optima"  # the part of a comparison that is of no method
KINDS = ("runs", "search", "steps")


def parts(kind: str, setup: Settings) -> list[str]:
    """What a reproduction, or a search for it, is made of."""
    more = [OPTIMA] if kind == "runs" and asked_of(setup).metrics[0] == "auc" else []
    return [*setup.algorithms, *more]


def place(out: Path, kind: str, name: str, number: int) -> Path:
    """Where a part is left."""
    return out / f"{name}.{kind}.{number}.json"


def make(kind: str, name: str, number: int, chosen: Any) -> dict[str, Any]:
    """One part, with where and how long it ran."""
    setup = settings.read(papers.available()[name])
    part, began = parts(kind, setup)[number], time.perf_counter()
    made = {"runs": _runs, "search": _search, "steps": _steps}[kind](setup, part, chosen)
    return {
        "part": part,
        **made,
        "wall": round(time.perf_counter() - began, 1),
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": {package: v for package, v in versions().items() if package != "fedloom"},
    }


def machine() -> str:
    """What it ran on: a GPU where JAX has one, else the cores of the machine."""
    import jax

    kind = jax.devices()[0].device_kind
    cores = f"{os.cpu_count()} cores, {platform.machine()}"
    return cores if jax.default_backend() == "cpu" else f"one {kind}, {cores}"


def _runs(setup: Settings, part: str, chosen: Any) -> dict[str, Any]:
    metrics = asked_of(setup).metrics
    if part == OPTIMA:
        return {"digest": raw_results.digest(setup), OPTIMA: raw_results.optima(setup, metrics[0])}
    options = {k: v for k, v in setup.options().items() if k != "checkpoint_seconds"}
    first = options.pop("seed")
    found = comparing.compare(
        {part: setup.algorithms[part]},
        setup.problem,
        setup.clients_of if setup.compare.redivide else setup.clients(),
        seeds=range(first, first + setup.compare.seeds),
        metric=metrics[0],
        **options,
    ).results[part]
    return {
        "digest": raw_results.digest(setup),
        "seconds": sum(run.final["seconds"] for run in found),
        "larger_is_better": any(run.larger_is_better(metrics[0]) for run in found),
        "runs": [raw_results.run_of(part, run, None, metrics)._asdict() for run in found],
    }


def _search(setup: Settings, part: str, chosen: Any) -> dict[str, Any]:
    method = {part: setup.algorithms[part]}
    over = concerning(setup.over, part, method[part], setup.problem)
    options = {
        k: v
        for k, v in setup.options().items()
        if k not in ("seed", "rounds", "checkpoint_seconds")
    }
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


def _steps(setup: Settings, part: str, chosen: Any) -> dict[str, Any]:
    tuner = vertical_steps.Tuner(setup, chosen.seeds)
    method = setup.algorithms[part]
    tried = vertical_steps.tune(tuner, part, method, chosen.factor, 6000)
    return {"tried": tried, "target": setup.compare.target}


def join(kind: str, name: str, chosen: Any) -> Path:
    """Write the raw results of which all parts are there."""
    setup = settings.read(papers.available()[name])
    count = len(parts(kind, setup))
    made = [_read(place(chosen.out, kind, name, number)) for number in range(count)]
    write = {"runs": _write_runs, "search": _write_search, "steps": _write_steps}[kind]
    return write(name, setup, made, chosen)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _write_runs(name: str, setup: Settings, made: list[dict[str, Any]], chosen: Any) -> Path:
    best = next((part[OPTIMA] for part in made if OPTIMA in part), {})
    made = [part for part in made if part["part"] != OPTIMA]
    stale = [part["part"] for part in made if part["digest"] != raw_results.digest(setup)]
    if stale:
        raise SystemExit(f"{name}: made with other settings: {', '.join(stale)}")
    about = {
        "reproduction": name,
        "command": f"python -m benchmarks.in_parts {name}",
        "settings": raw_results.digest(setup),
        "date": max(part["date"] for part in made),
        "seconds_in_rounds": round(sum(part["seconds"] for part in made)),
        "machine": _where(made),
        "versions": _versions(made),
        "metrics": list(asked_of(setup).metrics),
        "larger_is_better": any(part["larger_is_better"] for part in made),
    }
    found = {
        part["part"]: [
            Run(**run)._replace(optimum=raw_results.digits(best.get(part["part"])))
            for run in part["runs"]
        ]
        for part in made
    }
    path = RAW / f"{name}.jsonl"
    raw_results.write(Raw(about, found), path)
    return path


def _where(made: list[dict[str, Any]]) -> str:
    """The machines, and that methods did not have them for themselves."""
    machines = dict.fromkeys(part["machine"] for part in made)
    shared = "shared by methods" if any("NVIDIA" in m for m in machines) else "a core for a method"
    return f"{' and '.join(machines)}, {shared}"


def _versions(made: list[dict[str, Any]]) -> dict[str, str]:
    """Of packages; where parts were made with several, all of them."""
    return {
        package: " and ".join(dict.fromkeys(part["versions"][package] for part in made))
        for package in made[0]["versions"]
    }


def _write_search(name: str, setup: Settings, made: list[dict[str, Any]], chosen: Any) -> Path:
    def rank(row: dict[str, Any]) -> tuple[str, float]:
        value = row[made[0]["metric"]]
        return row["method"], -value if value == value else float("inf")

    rows = sorted((row for part in made for row in part["rows"]), key=rank)
    facts = {
        "metric": made[0]["metric"],
        "larger_is_better": made[0]["larger_is_better"],
        "over": list(setup.over),
        "trials": rows,
        "command": f"python -m benchmarks.in_parts {name} --kind search --rounds {chosen.rounds}",
        "date": max(part["date"] for part in made),
        "machine": _where(made),
        "versions": _versions(made),
    }
    path = RAW / f"{name}-sweep.json"
    write_json(path, facts, shared=True)
    return path


def _write_steps(name: str, setup: Settings, made: list[dict[str, Any]], chosen: Any) -> Path:
    about = {
        "settings": name,
        "command": f"python -m benchmarks.in_parts {name} --kind steps --factor "
        f"{chosen.factor:g} --seeds {chosen.seeds}",
        "date": max(part["date"] for part in made),
        "machine": _where(made),
        "versions": _versions(made),
        "target": made[0]["target"],
    }
    path = RAW / f"{name}-steps.json"
    path.write_text(vertical_steps.text(about, [t for part in made for t in part["tried"]]))
    return path


def _pool(tasks: list[tuple[str, int]], chosen: Any) -> None:
    """Each task in a process, a worker's all on one core."""
    waiting: queue.Queue[tuple[str, int]] = queue.Queue()
    for task in tasks:
        waiting.put(task)

    def work(core: int) -> None:
        while True:
            try:
                name, number = waiting.get_nowait()
            except queue.Empty:
                return
            words = [sys.executable, "-m", "benchmarks.in_parts", name, "--kind", chosen.kind]
            words += ["--part", str(number), "--out", str(chosen.out)]
            for option in ("rounds", "factor", "seeds"):
                words += [f"--{option}", str(getattr(chosen, option))]
            one = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
            subprocess.run(["taskset", "-c", str(core), *words], env=os.environ | one, check=False)

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
    parser.add_argument("--part", type=int, help="make this one alone, and do not join")
    parser.add_argument("--join", action="store_true", help="join alone")
    chosen: Any = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.part is not None:
        (name,) = chosen.names
        made = json.dumps(make(chosen.kind, name, chosen.part, chosen))
        place(chosen.out, chosen.kind, name, chosen.part).write_text(made, encoding="utf-8")
        return
    if not chosen.join:
        counts = {
            name: len(parts(chosen.kind, settings.read(papers.available()[name])))
            for name in chosen.names
        }
        tasks = [(name, i) for name, count in counts.items() for i in range(count)]
        _pool([t for t in tasks if not place(chosen.out, chosen.kind, *t).exists()], chosen)
    for name in chosen.names:
        print(join(chosen.kind, name, chosen))


if __name__ == "__main__":
    main()
