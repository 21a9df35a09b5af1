"""The records of runs in a person's kit: their sites, settings and how they ended."""

from typing import Any

from fedloom.checksums import read_json, write_json
from fedloom.errors import FederationError
from fedloom.experiments.settings import Settings
from fedloom.experiments.written import runnable
from fedloom.federation.job import fingerprint
from fedloom.federation.kits import Kit

RECORDS = "runs"  # folder of a person's kit: what was submitted


class Record:
    """The record of a run in a person's kit."""

    def __init__(self, kit: Kit, run: str):
        self.run = run
        self.file = kit.path / RECORDS / f"{run}.json"
        facts = read_json(self.file) if self.file.exists() else {}
        self.sites: list[str] = facts.get("sites", [])
        self.jobs: list[str] = facts.get("jobs", [])
        self.settings: dict[str, Any] | None = facts.get("settings")  # as resolved
        self.text: str = facts.get("text", "")  # and as they were written
        self.ends: dict[str, dict[str, Any]] = facts.get("ends", {})  # of jobs, by their own word

    def keep(self, settings: Settings) -> None:
        """Remember with which settings the run is submitted."""
        self.settings = settings.resolved()
        self.text = runnable(settings) if settings.place.text else ""  # else it came from Python

    def end(self, job: str, told: dict[str, Any]) -> None:
        """Remember how a job has ended."""
        self.ends[job] = told
        self.write()

    def write(self) -> None:
        """Keep it."""
        names = ("run", "sites", "jobs", "settings", "text", "ends")
        write_json(self.file, {name: getattr(self, name) for name in names})


def last_run(kit: Kit, settings: Settings | None = None) -> Record:
    """The latest run that was submitted with a kit, of these settings if any are given."""
    mark = "" if settings is None else f"-{fingerprint(settings)}-"
    files = [file for file in (kit.path / RECORDS).glob("*.json") if mark in file.name]
    if not files:
        raise FederationError(
            f"{kit.path} has submitted no such run. Submit it without --resume first."
        )
    return Record(kit, max(files, key=lambda file: file.stat().st_mtime).stem)


def all_runs(kit: Kit) -> list[Record]:
    """Every run that was submitted with a kit."""
    return [Record(kit, file.stem) for file in sorted((kit.path / RECORDS).glob("*.json"))]
