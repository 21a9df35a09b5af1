"""What a verification shows while it runs and says at its end, and the lines that it leaves."""

import collections
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedloom.algorithms.catalogue import CATALOGUE
from verification.checks import CHECKS
from verification.processes import Difference, Ran
from verification.search import Visit


class Report:
    """Counts, disagreements, and a file of JSON lines with every draw and every process."""

    def __init__(self, out: Path, minutes: float):
        out.mkdir(parents=True, exist_ok=True)
        self.path = out / "results.jsonl"
        self.file = self.path.open("w", encoding="utf-8")
        self.console = Console()
        self.began, self.seconds = time.monotonic(), 60 * minutes
        self.agreed: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.draws = self.processes = self.programs = 0
        self.refused: collections.Counter[str] = collections.Counter()
        self.disagreements: list[str] = []
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[doing]}"),
            console=self.console,
            transient=True,
        )
        self.task = self.progress.add_task("", total=self.seconds, doing="")

    def show(self, stage: str, doing: Any) -> None:
        """Move the bar."""
        passed = min(time.monotonic() - self.began, self.seconds)
        failed = f", {len(self.disagreements)} disagree" if self.disagreements else ""
        description = f"{stage}: {self.draws} draws, {self.processes} processes{failed}"
        self.progress.update(self.task, completed=passed, description=description, doing=str(doing))

    def take_visit(self, visit: Visit) -> None:
        """Note the draws of a visit."""
        for outcome in visit.outcomes:
            if outcome.refused:
                self.refused[outcome.refused[:100]] += 1
            else:
                self.draws += 1
                self.agreed[visit.key].update(outcome.passed)
            self._write(
                what="draw",
                method=visit.key,
                agreed=outcome.passed,
                refused=outcome.refused,
                error=str(outcome.error or ""),
                case=repr(outcome.case),
            )
        if visit.smallest is not None:
            smallest = visit.smallest
            assert smallest.error is not None
            program = smallest.case.snippet(smallest.error.check)
            self._disagree(f"{visit.key}: {smallest.error}\n\n{program}", method=visit.key)

    def take_processes(self, ran: list[Ran], found: list[Difference]) -> None:
        """Note the processes of a set of programs."""
        self.processes += len(ran)
        self.programs += len(ran[0].order) if ran else 0
        for one in ran:
            self._write(what="process", **one._asdict())
        for difference in found:
            self._disagree(str(difference), program=difference.program)

    def take_look_alikes(self, found: list[tuple[type, type]]) -> None:
        """Note classes that JAX cannot tell apart."""
        for a, b in found:
            self._disagree(f"JAX cannot tell {a.__qualname__} and {b.__qualname__} apart")

    def take_compiler(self, found: list[str]) -> None:
        """Note programs that the compiler gets wrong."""
        for wrong in found:
            self._disagree(f"jit(vmap(...)) against NumPy: {wrong}")

    def close(self) -> int:
        """Say what was done; returns the exit code."""
        self.file.close()
        table = Table("method", "draws", *CHECKS, title="comparisons that agreed")
        for key in [key for key in CATALOGUE if key in self.agreed]:
            counts = self.agreed[key]
            table.add_row(key, str(counts["again"]), *(str(counts[name] or "") for name in CHECKS))
        self.console.print(table)
        for reason, times in self.refused.most_common():
            self.console.print(f"refused, drawn again ({times}): {reason}", markup=False)
        minutes = (time.monotonic() - self.began) / 60
        compared = sum(self.agreed[key]["listing"] > 0 for key in self.agreed)
        self.console.print(
            f"{self.draws} draws of {len(self.agreed)} methods, {compared} of them compared with "
            f"their transcriptions; {self.programs} programs in {self.processes} fresh processes; "
            f"{minutes:.1f} minutes. Disagreements: {len(self.disagreements)}. See {self.path}.",
            markup=False,
        )
        return 1 if self.disagreements else 0

    def _disagree(self, text: str, **about: Any) -> None:
        self.disagreements.append(text)
        self._write(what="disagreement", text=text, **about)
        self.progress.console.print(f"\nDISAGREEMENT\n{text}", markup=False, highlight=False)

    def _write(self, **line: Any) -> None:
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
