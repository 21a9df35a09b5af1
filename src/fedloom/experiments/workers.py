"""Hand runs to an executor, wait for them, and read their results from their folders.

An executor is anything whose `submit(function, *args)` returns a future with `result()`: of
`concurrent.futures`, a `dask.distributed.Client`, a `submitit.AutoExecutor`. The run folders are
the queue. What has ended there is not handed over again, and a run that another worker has is left
to it, and waited for when nothing else is to do: so several commands may share the work.
"""

import contextlib
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.errors import ParameterError, WorkersError
from fedloom.experiments import orders
from fedloom.experiments.claims import is_claimed
from fedloom.experiments.orders import Order, Source
from fedloom.measuring.result import Result

_LOOK_AGAIN = 0.1  # seconds between two looks at futures
_SHOWN = 3  # failures in a message
_ERROR = re.compile(r"^(?:\w+\.)*(\w+Error: .*)$", re.MULTILINE)  # the last line of a trace


class Task(NamedTuple):
    """A run that is to be handed over."""

    name: str  # as a line of progress has it
    order: Order
    folder: Path


Told = Callable[[Task, Result, str], None]  # a run, what it left, and "3 of 8"


def _say(task: Task, result: Result, count: str) -> None:
    """One line for each run, where somebody looks."""
    if sys.stderr.isatty():
        print(f"{count}: {task.name}: {result.status}", file=sys.stderr)


class Workers(NamedTuple):
    """An executor, and what all runs that it gets have in common."""

    executor: Any
    source: Source
    told: Told = _say

    def run(self, tasks: Iterable[Task], finished: Callable[[int, Result], None]) -> None:
        """Have tasks carried out; `finished` hears of each as it ends, by its place.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. What had not begun is cancelled.
            WorkersError: Some runs have failed; the others are done.
        """
        tasks = list(tasks)
        count = 0

        def heard(place: int, result: Result) -> None:
            nonlocal count
            count += 1
            self.told(tasks[place], result, f"{count} of {len(tasks)}")
            finished(place, result)

        left = {}
        for place, task in enumerate(tasks):
            result = orders.ended(task.order, task.folder)
            if result is None:
                left[place] = task
            else:
                heard(place, result)
        failed: dict[str, Exception] = {}
        for wait in (False, True):
            with contextlib.closing(self._submitted(dict(left), wait)) as outcomes:
                for place, outcome in outcomes:
                    task = left[place]
                    if isinstance(outcome, Exception):
                        failed[left.pop(place).name] = outcome
                    elif (result := orders.ended(task.order, task.folder)) is not None:
                        del left[place]
                        heard(place, result)
        unclear = WorkersError("its worker has left it unfinished")
        _check(failed | dict.fromkeys((task.name for task in left.values()), unclear), len(tasks))

    def _submitted(
        self, tasks: dict[int, Task], wait: bool
    ) -> Generator[tuple[int, Exception | str], None, None]:
        """Submit tasks; yields the place of each, as it ends, and what came of it."""
        if not tasks:
            return
        pending: dict[int, Any] = {}
        try:
            # Slurm takes many runs as one job, if they are submitted in one go.
            with getattr(self.executor, "batch", contextlib.nullcontext)():
                for place, (_, order, folder) in tasks.items():
                    arguments = (order, str(folder.resolve()), wait)
                    pending[place] = self.executor.submit(orders.obey, *arguments)
            while pending:
                ended = [place for place, future in pending.items() if _is_done(future)]
                for place in ended:
                    try:
                        yield place, pending[place].result()
                    except Exception as error:  # whatever the executor makes of a failure
                        yield place, error
                    del pending[place]
                if not ended:
                    time.sleep(_LOOK_AGAIN)
        except BaseException:
            for place, future in pending.items():
                if not is_claimed(tasks[place].folder):
                    getattr(future, "cancel", lambda: None)()
            raise


def workers(
    executor: Any, out: str | Path | None, redivided: bool, options: dict[str, Any]
) -> Workers:
    """The workers of a call with an executor: this one, or those that the command line has made."""
    if isinstance(executor, Workers):
        return executor
    if not callable(getattr(executor, "submit", None)):
        raise ParameterError(
            f"executor must have submit(function, *args); got a {type(executor).__name__}. Pass "
            f"one such as concurrent.futures.ProcessPoolExecutor(2, "
            f'mp_context=multiprocessing.get_context("spawn")).'
        )
    if out is None:
        raise ParameterError(
            'an executor needs a folder that its workers share; got out=None. Write out="runs/a".'
        )
    return Workers(executor, orders.from_objects(Path(out), redivided, options))


def _is_done(future: Any) -> bool:
    """Whether a future has ended; one that does not tell is waited for."""
    return not hasattr(future, "done") or future.done()


def _check(failed: dict[str, Exception], count: int) -> None:
    if not failed:
        return
    said = [f"{name}: {_words(error)}" for name, error in failed.items()]
    more = [f"and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
    raise WorkersError(
        f"{len(failed)} of {count} runs did not end. {'; '.join([*said[:_SHOWN], *more])}. What "
        f"ended is kept; once the cause is fixed, the same call or command goes on with the rest."
    )


def _words(error: Exception) -> str:
    """The error itself; an executor may have put the trace of another host around it."""
    text = str(error).strip()
    within = _ERROR.findall(text) if "\n" in text else []
    return (within[-1] if within else f"{type(error).__name__}: {text}").rstrip(".")
