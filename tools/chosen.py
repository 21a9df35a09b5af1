"""Put what a search chose into its settings file: `python -m tools.chosen NAME`.

Of a search by `benchmarks.in_parts --kind search` each method gets the values that were best on
held-out rows, of one by `--kind steps` its fastest step or rho. Only lines of `[[algorithm]]` that
have the field already are changed, so that comments and order stay.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from fedloom.experiments import papers
from tools import step_tables

RAW = Path(__file__).parents[1] / "docs" / "reproductions" / "raw"
Chosen = dict[str, dict[str, Any]]  # by method, the values of its fields


def searched(name: str) -> Chosen:
    """By method the setting that was best after the most rounds that any of its settings had."""
    found = json.loads((RAW / f"{name}-sweep.json").read_text(encoding="utf-8"))
    sign, best = (1 if found["larger_is_better"] else -1), dict[str, tuple[Any, ...]]()
    for trial in found["trials"]:
        value = trial[found["metric"]]
        rank = (trial["rounds"], sign * value if value == value else float("-inf"))
        if trial["method"] not in best or rank > best[trial["method"]][0]:
            best[trial["method"]] = (rank, trial)
    return {
        method: {field: trial[field] for field in found["over"] if field in trial}
        for method, (_, trial) in best.items()
    }


def stepped(name: str) -> Chosen:
    """By method the step or rho that was fastest."""
    return {
        method: {field: line[field] for field in ("step", "rho") if field in line}
        for method, line in step_tables.best(name).items()
    }


def changed(text: str, chosen: Chosen) -> str:
    """A settings file with these values."""
    head, *blocks = re.split(r"(?m)^(?=\[\[algorithm\]\])", text)
    return head + "".join(_block(block, chosen) for block in blocks)


def _block(block: str, chosen: Chosen) -> str:
    named = re.search(r'(?m)^name = "(.*)"', block) or re.search(r'(?m)^key = "(.*)"', block)
    for field, value in chosen.get(named[1] if named else "", {}).items():
        block = re.sub(rf"(?m)^{re.escape(field)} = .*", f"{field} = {value:g}", block, count=1)
    return block


def main() -> None:
    """Change the settings of each name."""
    for name in sys.argv[1:]:
        path = papers.available()[name]
        chosen = searched(name) if (RAW / f"{name}-sweep.json").exists() else stepped(name)
        path.write_text(changed(path.read_text(encoding="utf-8"), chosen), encoding="utf-8")
        print(f"{path.name}: {chosen}")


if __name__ == "__main__":
    main()
