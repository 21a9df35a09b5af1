"""Run a settings file in a folder, or go on with a run that was interrupted there."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from fedloom.checksums import read_json
from fedloom.data.parties import Holders
from fedloom.errors import DivergedError, FedloomError, SettingsError, WorkersError
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.known_code import remember
from fedloom.experiments.settings import Settings
from fedloom.experiments.tracking import tracking
from fedloom.experiments.written import runnable
from fedloom.files import inside, writable_folder, write_bytes
from fedloom.measuring.reference import reference
from fedloom.measuring.result import Result
from fedloom.metrics.chosen import NEED_OPTIMUM
from fedloom.problems.base import Problem
from fedloom.simulator import hosts


def run(
    settings: Settings, out: Path, *, resume: bool = False, progress: bool | None = None
) -> Result:
    """Simulate what the settings say; the folder is written even where the run diverges."""
    with hosts.all_or_none():
        algorithm, clients = settings.algorithm, settings.clients()
        options = with_optimum(settings.options(), settings.problem, clients, algorithm.dual)
    facts = {"algorithm": algorithm, "problem": settings.problem, "seed": settings.run.seed}
    trackers = settings.run.log if hosts.leads() else ()
    with run_folder(settings, out, resume=resume) as folder, contextlib.ExitStack() as opened:
        options |= {"progress": progress, "on_evaluation": None}
        with hosts.all_or_none():
            if trackers:
                track = opened.enter_context(tracking(trackers, out, out.name, facts))
                options["on_evaluation"] = track
        return folder.go_on(algorithm, settings.problem, clients, **options)


@contextlib.contextmanager
def run_folder(settings: Settings, out: Path, *, resume: bool) -> Iterator[RunFolder]:
    """A folder with the settings in it; where they turn out to be wrong it is as it was before.

    Runs that ended stay, as of methods before the one whose settings are wrong.
    """
    resolved = settings.resolved()
    folder = RunFolder(out, {"settings": resolved})
    existed = out.exists()
    kept = [inside(out, file.name) for file in out.glob("settings.*")] if resume else []
    before = {file: file.read_bytes() for file in kept}

    def begin() -> None:
        writable_folder(out)
        if not resume and out.exists() and any(out.iterdir()):
            raise SettingsError(
                f"{out} is not empty. Choose another --out, or go on with what is in it: "
                f"--resume {out}."
            )
        if not resume or json.loads(json.dumps(resolved)) != read_json(out / "settings.json"):
            folder.write_settings(runnable(settings), resolved)

    hosts.by_leader(begin)
    remember(resolved)  # on every host, each of which may be asked to resume
    try:
        yield folder
    except (DivergedError, WorkersError):  # the settings are right, and some runs may have ended
        raise
    except FedloomError:
        if hosts.leads():
            for file, content in before.items():
                write_bytes(file, content, shared=True)
            if not resume and not any(out.rglob("result.json")):
                shutil.rmtree(out)
                if existed:
                    out.mkdir()
        raise


def with_optimum(
    options: dict[str, Any], problem: Problem, clients: Holders, dual: str
) -> dict[str, Any]:
    """The options of a run, with the solution where its metrics need it."""
    metrics = set(options.get("metrics") or ())
    if metrics & set(NEED_OPTIMUM) and options.get("optimum") is None:
        return options | {"optimum": reference(problem, clients, dual=dual)}
    return options


def default_folder(settings: Settings) -> Path:
    """A folder of its own for each run, named by the settings file and the time.

    To the microsecond, for several runs may be started together.
    """
    stem = Path(settings.place.file).stem
    return Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S-%f}"
