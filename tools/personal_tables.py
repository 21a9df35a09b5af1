"""QuPeD's tables from the raw lines of `benchmarks.personal_gpu`, beside the paper's."""

import json
import statistics
from pathlib import Path

from benchmarks.personal_gpu import PAPER

LINES = Path(__file__).parents[1] / "docs" / "verification" / "personal-h200.jsonl"
NAMES = {
    "fedavg": "FedAvg", "local": "local", "local-2": "local, 2 bits", "local-1": "local, 1 bit",
    "quped": "QuPeD", "quped-2": "QuPeD, 2 bits", "quped-1": "QuPeD, 1 bit",
    "qupel-2": "QuPeL, 2 bits", "qupel-1": "QuPeL, 1 bit", "pfedme": "pFedMe",
    "per_fedavg": "Per-FedAvg", "mutual": "mutual learning",
}  # fmt: skip


def accuracies(task: str, classes: int, method: str) -> list[float]:
    """Of each seed, after the last round."""
    wanted = {"task": task, "classes": classes, "method": method}
    rows = map(json.loads, LINES.read_text(encoding="utf-8").splitlines())
    return [100 * row["accuracy"] for row in rows if wanted.items() <= row.items()]


def figure(task: str, classes: int, method: str) -> str:
    """Mean and sample deviation over seeds."""
    values = accuracies(task, classes, method)
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"


def table(task: str) -> str:
    """All methods, with a pair of columns for each number of classes that was run."""
    tried = [c for t, c, _ in PAPER if t == task and accuracies(t, c, "fedavg")]
    heads = [f"{c} classes each | the paper" for c in tried]
    lines = [f"| method | {' | '.join(heads)} |", f"| --- |{' --- | --- |' * len(tried)}"]
    for key, name in NAMES.items():
        cells = [f"{figure(task, c, key)} | {PAPER[task, c, 'cnn1'][key]:.2f}" for c in tried]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
