"""Raw results of a reproduction, or of a search for it, from parts that were made side by side."""

import dataclasses
from pathlib import Path
from typing import Any

from benchmarks import vertical_steps
from fedloom.checksums import write_json
from fedloom.experiments import raw_results
from fedloom.experiments.asking import asked_of
from fedloom.experiments.raw_results import Raw, Run
from fedloom.experiments.settings import Settings

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"
OPTIMA = "optima"  # the part of a comparison that is of no method
Made = list[dict[str, Any]]


def runs(name: str, setup: Settings, made: Made, chosen: Any) -> Path:
    """What `fedloom reproduce NAME --raw FILE` writes."""
    best = next((part[OPTIMA] for part in made if OPTIMA in part), {})
    made = [part for part in made if part["part"] != OPTIMA]
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
        method: [
            Run(**part["run"])._replace(optimum=raw_results.digits(best.get(method)))
            for part in made
            if part["part"] == method
        ]
        for method in setup.algorithms
    }
    seeds = {method: len(group) for method, group in found.items()}
    if set(seeds.values()) != {setup.compare.seeds}:
        about |= {"command": f"{about['command']} --some", "seeds": seeds}
    path = RAW / f"{name}.jsonl"
    raw_results.write(Raw(about, found), path)
    return path


def taken_apart(name: str, setup: Settings) -> Made:
    """Parts of the runs that raw results have already, where the settings are still the same.

    More seeds than were run are no other settings.
    """
    path = RAW / f"{name}.jsonl"
    raw = raw_results.read(path) if path.exists() else Raw({}, {})
    fewer = dataclasses.replace(setup.compare, seeds=max(map(len, raw.runs.values()), default=1))
    same = [raw_results.digest(one) for one in (setup, setup._replace(compare=fewer))]
    if raw.about.get("settings") not in same:
        return []
    made = [run for group in raw.runs.values() for run in group]
    about = {key: raw.about[key] for key in ("date", "versions", "larger_is_better")}
    about["machine"] = raw.about["machine"].rsplit(", ", 1)[0]
    about["seconds"] = raw.about["seconds_in_rounds"] / len(made)  # their sum is what counts
    best = {run.method: run.optimum for run in made if run.optimum is not None}
    optima = [{"part": OPTIMA, OPTIMA: best, **about}] if best else []
    return optima + [{"part": run.method, "run": run._asdict(), **about} for run in made]


def search(name: str, setup: Settings, made: Made, chosen: Any) -> Path:
    """What `fedloom sweep` says of all trials, the best of each method first."""

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


def steps(name: str, setup: Settings, made: Made, chosen: Any) -> Path:
    """What `benchmarks.vertical_steps` writes."""
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


def _where(made: Made) -> str:
    """The machines, and that methods did not have them for themselves."""
    machines = dict.fromkeys(part["machine"] for part in made)
    shared = "shared by methods" if any("NVIDIA" in m for m in machines) else "a core for a method"
    return f"{' and '.join(machines)}, {shared}"


def _versions(made: Made) -> dict[str, str]:
    """Of packages; where parts were made with several, all of them."""
    return {
        package: " and ".join(dict.fromkeys(part["versions"][package] for part in made))
        for package in made[0]["versions"]
    }
