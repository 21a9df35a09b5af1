"""Workers that Slurm begins, by submitit: all runs are one array of jobs."""

import secrets
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from fedloom.errors import SettingsError
from fedloom.hints import needs

_TRY = "Try --slurm partition=gpu,gpus=1,time=120."


class Slurm:
    """An executor whose jobs are put into the queue again when their time is over."""

    def __init__(self, folder: Path, words: str):
        needs("submitit", "cluster")
        import submitit

        chosen = parameters(words)
        if shutil.which("sbatch") is None:
            raise SettingsError(
                "--slurm: there is no sbatch on this machine. Call it where jobs are submitted to "
                "Slurm, or use --workers N for processes of this machine."
            )
        # Submitit unpickles whatever lies under a job's number as its result, also where somebody
        # else put it there before the job was given that number.
        own = folder / f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(8)}"
        self._executor = submitit.AutoExecutor(folder=own, cluster="slurm")
        self._executor.update_parameters(**chosen)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have a function called in a job."""
        return self._executor.submit(Again(), function, *arguments)

    def batch(self) -> AbstractContextManager[None]:
        """Submissions within are one array of jobs."""
        return self._executor.batch()

    def __enter__(self) -> "Slurm":
        return self

    def __exit__(self, *error: object) -> None:
        """Jobs that have begun go on by themselves."""


class Again:
    """Calls a function; submitit asks it what to do with a job that has run out of time."""

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call it."""
        return function(*arguments)

    def checkpoint(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same again: the run goes on from its checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, function, *arguments)


def parameters(words: str) -> dict[str, Any]:
    """What "partition=gpu,gpus=1,time=120" says, as submitit has it.

    A key is an option of sbatch without its dashes, or a parameter of submitit; `time` is in
    minutes.
    """
    from submitit.auto.auto import AutoExecutor
    from submitit.slurm.slurm import SlurmExecutor

    given: dict[str, str] = {}
    for word in filter(None, words.split(",")):
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise SettingsError(f"--slurm must be KEY=VALUE,KEY=VALUE,...; got {word!r}. {_TRY}")
        given[key.strip().replace("-", "_")] = value.strip()
    time = given.pop("time", given.pop("timeout_min", ""))
    if not time.isdigit():
        raise SettingsError(
            f"--slurm needs time=MINUTES, the longest that a run may take before it is put into "
            f"the queue again; got {time or 'none'!r}. {_TRY}"
        )
    found: dict[str, Any] = {"timeout_min": int(time)}
    shared, slurm = AutoExecutor._typed_parameters(), SlurmExecutor._valid_parameters()
    others: dict[str, Any] = {}
    for key, value in given.items():
        if key in shared:
            found[key] = shared[key](value)
        elif key in slurm:
            found[f"slurm_{key}"] = int(value) if value.isdigit() else value
        else:
            others[key.replace("_", "-")] = value
    return found | ({"slurm_additional_parameters": others} if others else {})
