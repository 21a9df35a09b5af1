"""The folder of a run: its settings, its checkpoint while it goes on, its result at the end.

    settings.toml             a settings file that repeats the run from any folder: the user's own,
                              or one with the changes of the command line and absolute paths
    settings.json             as resolved: overrides applied, defaults filled in
    log.txt                   when it began, was interrupted, went on and ended
    checkpoint.safetensors    while the run goes on, or after it was killed
    result.json, ...          at the end: what `fedloom.load` reads
    coefficients.csv          of a linear model on tables of sites: by columns, with odds ratios

The checkpoint is one file, replaced whole. It is removed only when the result is complete, so that
whatever moment a run is killed at, one of the two is there and whole.
"""

import dataclasses
import importlib.metadata
import inspect
import platform
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fedloom import deploy
from fedloom.checksums import write_json
from fedloom.data.clients import Clients
from fedloom.data.parties import Holders
from fedloom.errors import DivergedError, SettingsError
from fedloom.experiments import same_rows
from fedloom.experiments.divisions import REDIVIDED
from fedloom.experiments.explaining import NOTED, coefficients_of, noted
from fedloom.experiments.same_rows import DIVISION, FEATURES
from fedloom.files import inside, write_file, write_text
from fedloom.measuring import checkpoint
from fedloom.measuring.result import Result, load
from fedloom.problems.base import Problem
from fedloom.problems.personal import Personal
from fedloom.protocol import Algorithm
from fedloom.simulator import hosts
from fedloom.simulator.run import simulate
from fedloom.version import __version__

SWEEP = "sweep.json"  # what a sweep leaves of its trials
_PACKAGES = ("jax", "jaxlib", "numpy")
_SAME = {  # options by which it is told whether a run is the same, and what they are if not given
    name: inspect.signature(simulate).parameters[name].default
    for name in ("batch_size", "seed", "precision", "deterministic")
}
_NOTED = (REDIVIDED, DIVISION, FEATURES)  # notes by which it is told too


class RunFolder(NamedTuple):
    """Where a run is kept."""

    path: Path
    notes: Mapping[str, Any] = MappingProxyType({})  # what the result shall say about itself

    @property
    def _checkpoint(self) -> Path:
        return inside(self.path, "checkpoint.safetensors")

    def read(self) -> Result | None:
        """What there is to go on from."""
        if self._checkpoint.exists():
            return checkpoint.read(self._checkpoint)
        return load(self.path) if (self.path / "result.json").exists() else None

    def _read_for_all(self) -> Result | None:
        """The same in every process of a run, as the first of them reads it."""
        if not hosts.several():
            return self.read()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "checkpoint.safetensors"
            with hosts.all_or_none():
                found = self.read() if hosts.leads() else None
                if found is not None:
                    checkpoint.write(file, found)
            data = hosts.sent(file.read_bytes() if file.exists() else None)
            if data is None:
                return None
            file.write_bytes(data)
            return checkpoint.read(file)

    def log(self, line: str) -> None:
        """Add a line to the log."""
        self.path.mkdir(parents=True, exist_ok=True)
        with inside(self.path, "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}\n")

    def write_settings(self, text: str, resolved: dict[str, Any]) -> None:
        """Keep the settings, as a file that runs and as resolved."""
        write_text(self.path / "settings.toml", text, shared=True)
        write_json(self.path / "settings.json", resolved, shared=True)

    def go_on(
        self, algorithm: Algorithm, problem: Problem, clients: Holders, **options: Any
    ) -> Result:
        """Run from the beginning, or from where an earlier run in this folder stopped."""
        return self._replace(notes={**self.notes, **same_rows.noted(clients)})._go_on(
            algorithm, problem, clients, **options
        )

    def _go_on(
        self, algorithm: Algorithm, problem: Problem, clients: Holders, **options: Any
    ) -> Result:
        before = self._read_for_all()
        if before is not None:
            now = {"algorithm": repr(algorithm), "problem": repr(problem), "clients": len(clients)}
            self._check_same(before, now, options)
            if before.status == "done" and before.final["round"] == options["rounds"]:
                if self._checkpoint.exists() and hosts.leads():  # killed while writing the result
                    self.finish(before)
                return before
        first = 0 if before is None else int(before.state.round)
        hosts.by_leader(lambda: self.log(f"from round {first}: {algorithm!r}"))
        try:
            result = simulate(
                algorithm, problem, clients, resume=before, checkpoint=self.keep, **options
            )
        except DivergedError as error:
            diverged = error.result
            hosts.by_leader(lambda: self.finish(diverged))
            raise
        if isinstance(problem, Personal) and isinstance(clients, Clients):
            own = deploy.take_all(algorithm, problem, clients, result)
            result.about["sizes"] = [model.sizes.packed for model in own]  # bytes
        if isinstance(clients, Clients) and clients.preparation is not None:
            result.about.update(noted(algorithm, problem, clients, result))
        hosts.by_leader(lambda: self.finish(result))
        return result

    def ended(self, algorithm: Algorithm, problem: Problem, **options: Any) -> Result | None:
        """The result of a run that has nothing left to do, be it that it diverged; else None."""
        before = self.read()
        if before is None or self._checkpoint.exists():
            return None
        self._check_same(before, {"algorithm": repr(algorithm), "problem": repr(problem)}, options)
        done = before.status == "done" and before.final["round"] == options["rounds"]
        return before if done or before.status == "diverged" else None

    def keep(self, result: Result) -> None:
        """Replace the checkpoint."""
        about = result.about | {name: self.notes[name] for name in _NOTED if name in self.notes}
        checkpoint.write(self._checkpoint, dataclasses.replace(result, about=about))

    def finish(self, result: Result) -> None:
        """Write the result; only then is the checkpoint no longer needed."""
        notes = {**self.notes, "versions": versions()}
        result = dataclasses.replace(result, about=result.about | notes)
        self.keep(result)
        result.fill(self.path)
        if result.about.get(NOTED):
            table = coefficients_of(result)
            write_file(self.path / "coefficients.csv", table.write_csv, shared=True)
        self._checkpoint.unlink()
        self.log(f"{result.status} at round {int(result.state.round)}")

    def _check_same(self, before: Result, facts: dict[str, Any], options: dict[str, Any]) -> None:
        now = facts | {name: options.get(name, usual) for name, usual in _SAME.items()}
        now |= {REDIVIDED: self.notes[REDIVIDED]} if REDIVIDED in self.notes else {}
        for name, value in now.items():
            if before.about.get(name, value) != value:
                raise SettingsError(
                    f"{self.path} holds a run with another {name}: {before.about[name]}; these "
                    f"settings say {value}. Resume with the same settings, or choose another --out."
                )
        if others := same_rows.changed(before.about, self.notes):
            raise SettingsError(
                f"{self.path} holds a run with {others}. Resume with the data that it began with, "
                f"or choose another --out."
            )
        if before.final["round"] > options["rounds"]:
            raise SettingsError(
                f"{self.path} holds a run of {before.final['round']} rounds; these settings say "
                f"rounds = {options['rounds']}. Ask for as many or more, or choose another --out."
            )


def versions() -> dict[str, str]:
    """What the run was made with; fedloom may run from its source, without an installation."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"fedloom": __version__} | found | {"python": platform.python_version()}
