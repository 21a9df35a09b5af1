"""Run a settings file, and keep what came of it in a folder."""

import importlib.metadata
import platform
from datetime import datetime
from pathlib import Path

from fedloom.engines.evaluation import NEED_OPTIMUM
from fedloom.engines.reference import reference
from fedloom.engines.result import Result
from fedloom.engines.simulator import simulate
from fedloom.errors import DivergedError
from fedloom.experiments.settings import Settings
from fedloom.files import write_text

_PACKAGES = ("fedloom", "jax", "jaxlib", "numpy")


def run(settings: Settings, out: Path, *, progress: bool | None = None) -> Result:
    """Simulate what the settings say; the folder is written even where the run diverges."""
    algorithm, clients, options = settings.algorithm, settings.clients(), settings.run.options()
    if set(options["metrics"] or ()) & set(NEED_OPTIMUM):
        options["optimum"] = reference(settings.problem, clients, dual=algorithm.dual)
    try:
        result = simulate(algorithm, settings.problem, clients, progress=progress, **options)
    except DivergedError as error:
        keep(error.result, settings, out)
        raise
    keep(result, settings, out)
    return result


def keep(result: Result, settings: Settings, out: Path) -> None:
    """Write the run folder: the result, the settings as they were read, and the versions."""
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    result.about["versions"] = versions | {"python": platform.python_version()}
    result.about["settings"] = settings.tables
    result.save(out)
    write_text(out / "settings.toml", settings.place.text)


def default_folder(settings: Settings) -> Path:
    """A folder of its own for each run, named by the settings file and the time."""
    stem = Path(settings.place.file).stem
    return Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
