"""Tables of tuned steps, from what `python -m benchmarks.vertical_steps` left."""

import json
import statistics
from pathlib import Path
from typing import Any

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"


def best(name: str) -> dict[str, dict[str, Any]]:
    """Of each method the value with the smallest median of iterations, the first of equal ones."""
    found = json.loads((RAW / f"{name}-steps.json").read_text(encoding="utf-8"))
    chosen: dict[str, dict[str, Any]] = {}
    for line in found["tried"]:
        if line["all"]:
            known = chosen.setdefault(line["method"], line)
            if _median(line) < _median(known):
                chosen[line["method"]] = line
    return chosen


def table(name: str) -> str:
    """What stands on a page in the place of a search."""
    if not (RAW / f"{name}-steps.json").exists():
        return f"*No raw results yet: `python -m benchmarks.vertical_steps {name}` makes them.*\n"
    found = json.loads((RAW / f"{name}-steps.json").read_text(encoding="utf-8"))
    chosen = best(name)
    lines = [
        "| method | values tried | step (ADMM: rho) | iterations | full vectors | of these up |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for method in dict.fromkeys(line["method"] for line in found["tried"]):
        tried = [line for line in found["tried"] if line["method"] == method]
        if method not in chosen:
            most = max(line["limit"] for line in tried)
            lines.append(f"| {method} | {len(tried)} | none | not in {most} |  |  |")
            continue
        line = chosen[method]
        value = line.get("step", line.get("rho"))
        sent = f"{line['down'] + line['up']:.0f} | {line['up']:.0f}"
        lines.append(f"| {method} | {len(tried)} | {value:.4g} | {_median(line):.0f} | {sent} |")
    seeds = max(len(line["iterations"]) for line in found["tried"])
    caption = f"Iterations to a relative gap of {found['target']:g}"
    caption += f", median over {seeds} seeds" if seeds > 1 else ""
    caption += f". `{found['command']}`, {found['date']}, {found['machine']}, "
    caption += f"JAX {found['versions']['jax']}; "
    caption += f"[all values that were tried](raw/{name}-steps.json)."
    return "\n".join(lines) + f"\n\n*{caption}*\n"


def _median(line: dict[str, Any]) -> float:
    return statistics.median(line["iterations"])
