"""A progress bar with rounds a second and the main metric."""

import sys
import time
from typing import Any, Protocol

LINES_SECONDS = 5.0  # between two lines in a file


class Progress(Protocol):
    """Follows a run, such as a progress bar."""

    def advance(self, round: int, rate: float) -> None:
        """Called after each block of rounds."""

    def evaluated(self, row: dict[str, float]) -> None:
        """Called after each evaluation."""

    def close(self) -> None:
        """Called at the end, however the run ends."""


class Silent:
    """Shows nothing."""

    def advance(self, round: int, rate: float) -> None:
        """Nothing."""

    def evaluated(self, row: dict[str, float]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Bar:
    """A line in the terminal."""

    def __init__(self, title: str, done: int, total: int, metric: str):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._metric = metric
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[value]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, completed=done, rate="", value="")

    def advance(self, round: int, rate: float) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=round, rate=f"{rate_text(rate)} rounds/s")

    def evaluated(self, row: dict[str, float]) -> None:
        """Show the main metric."""
        if self._metric in row:
            self._bar.update(self._task, value=f"{self._metric} {row[self._metric]:.4g}")

    def close(self) -> None:
        """Leave the line as it is."""
        self._bar.stop()


class Lines:
    """A line every few seconds, for output that is not a terminal."""

    def __init__(self, title: str, done: int, total: int, metric: str):
        self._title, self._total, self._metric = title, total, metric
        self._value = ""
        self._shown, self._when = done, float("-inf")
        self._latest = (done, 0.0)

    def advance(self, round: int, rate: float) -> None:
        """Say where the run is, unless that was just said."""
        self._latest = (round, rate)
        if time.monotonic() - self._when >= LINES_SECONDS:
            self._say()

    def evaluated(self, row: dict[str, float]) -> None:
        """Keep the main metric for the next line."""
        if self._metric in row:
            self._value = f", {self._metric} {row[self._metric]:.4g}"

    def close(self) -> None:
        """Say where it ended."""
        self._say()

    def _say(self) -> None:
        round, rate = self._latest
        if round != self._shown:
            self._shown, self._when = round, time.monotonic()
            where = f"{self._title}: round {round} of {self._total}{self._value}"
            print(f"{where}, {rate_text(rate)} rounds/s", file=sys.stderr, flush=True)


def rate_text(rate: float) -> str:
    """Rounds a second: whole ones where there are some, and no powers of ten."""
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


def progress_for(wish: bool | Progress | None, title: str, **about: Any) -> Progress:
    """A bar if requested, or by default when standard error is a terminal."""
    if wish is None:
        wish = sys.stderr.isatty()
    if isinstance(wish, bool):
        return Bar(title, **about) if wish else Silent()
    return wish
