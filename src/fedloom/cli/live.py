"""A table in the terminal that follows several runs while they go on."""

import sys
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedloom.cli.output import bytes_text
from fedloom.simulator.progress import Progress, Silent, rate_text

_COLUMNS = ("method", "seed", "round", "metric", "bytes", "rounds/s")


class LiveTable:
    """One line a run: how far it is, what the metric is, what it cost, how fast it goes."""

    def __init__(self, metric: str, rounds: int):
        self.metric = metric
        self.rounds = rounds
        self.lines: list[dict[str, str]] = []
        self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=4)

    def __enter__(self) -> "LiveTable":
        if sys.stderr.isatty():
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if sys.stderr.isatty():
            self._live.stop()

    def watch(self, name: str, seed: int) -> Progress:
        """A line for the run that begins."""
        if not sys.stderr.isatty():
            return Said(name, seed, self.metric, self.rounds)
        line = dict.fromkeys(_COLUMNS, "") | {"method": name, "seed": str(seed)}
        self.lines.append(line)
        return _Line(self, line)

    def refresh(self) -> None:
        """Show the lines as they are now."""
        self._live.update(self._table())

    def _table(self) -> Table | Text:
        if not self.lines:  # none began yet, or all of them were there already
            return Text(end="")
        table = Table(header_style="bold")
        for column in _COLUMNS:
            title = self.metric if column == "metric" else column
            table.add_column(title, justify="left" if column == "method" else "right")
        shown = self.lines[-Console(stderr=True).height + 6 :]
        for line in shown:
            table.add_row(*(line[column] for column in _COLUMNS))
        return table


class _Line:
    """Follows one run."""

    def __init__(self, table: LiveTable, line: dict[str, str]):
        self.table = table
        self.line = line

    def advance(self, round: int, rate: float) -> None:
        """How far it is."""
        self.line |= {"round": f"{round} of {self.table.rounds}", "rounds/s": rate_text(rate)}
        self.table.refresh()

    def evaluated(self, row: dict[str, Any]) -> None:
        """What the metric is."""
        self.line["bytes"] = bytes_text(row["bytes_up"] + row["bytes_down"])
        if self.table.metric in row:
            self.line["metric"] = f"{row[self.table.metric]:.4g}"
        self.table.refresh()

    def close(self) -> None:
        """The last values stay."""


class Said(Silent):
    """For output that is not a terminal: one line of text when a run has ended."""

    def __init__(self, name: str, seed: int, metric: str, rounds: int):
        self.about = f"{name}, seed {seed}"
        self.metric = metric
        self.rounds = rounds
        self.last: dict[str, Any] = {}

    def evaluated(self, row: dict[str, Any]) -> None:
        """Remember what the metric is."""
        self.last = row

    def close(self) -> None:
        """Say where it stopped."""
        value = self.last.get(self.metric)
        shown = "" if value is None else f", {self.metric} {value:.4g}"
        print(f"{self.about}: round {self.last.get('round', 0)}{shown}", file=sys.stderr)
