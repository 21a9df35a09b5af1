"""Many runs of one problem: side by side on a CPU's cores, or as one program on an accelerator.

On a CPU one compiled program serves all runs that differ in real-valued parameters and seeds only,
and each core takes the next run. On an accelerator such runs are one more axis of the program.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

import jax

from fedloom.data.parties import Holders
from fedloom.errors import DivergedError, HostsError
from fedloom.measuring.result import Result
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.crew import cores
from fedloom.simulator import hosts, lanes
from fedloom.simulator.progress import Silent
from fedloom.simulator.run import simulate
from fedloom.simulator.vmapped_runs import simulate_vmapped

T = TypeVar("T")
_LOOK = 0.1  # seconds after which the main thread looks whether it was interrupted


class PlannedRun(NamedTuple):
    """A run to be done: its method, problem and seed, and the result that it continues, if any."""

    algorithm: Algorithm
    problem: Problem
    seed: int
    resume: Result | None = None


def simulate_many(
    jobs: Sequence[PlannedRun],
    clients: Holders,
    *,
    finished: Callable[[int, Result], None] = lambda index, result: None,
    **options: Any,
) -> list[Result]:
    """Run all jobs; `finished` is called with each one's place in the list as it ends.

    Calls of `finished` never overlap, but may come from any thread; `on_evaluation` may be called
    by several threads at once. A run that diverges is returned with what it reached. On a CPU
    several runs have threads of their own, in which contexts such as `jax.debug_nans(True)` are not
    those of the caller.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; `finished` was called for the runs that were done.
    """
    if hosts.several():
        raise HostsError(
            "a sweep runs in one process: several compute one run together, not many. Start it "
            "without jax.distributed, on a part of the settings in each process."
        )
    if jax.default_backend() == "cpu":
        return _side_by_side(jobs, clients, finished, options)
    results: dict[int, Result] = {}
    for places in _alike(jobs):
        runs = [(jobs[i].algorithm, jobs[i].seed) for i in places]
        first = jobs[places[0]]
        made = None
        if len(runs) > 1 and first.resume is None:
            made = _as_one_program(runs, first.problem, clients, options)
        if made is None:
            made = [_one(jobs[i], clients, options, Silent()) for i in places]
        for i, result in zip(places, made, strict=True):
            results[i] = result
            finished(i, result)
    return [results[i] for i in range(len(jobs))]


def _as_one_program(
    runs: Sequence[tuple[Algorithm, int]],
    problem: Problem,
    clients: Holders,
    options: dict[str, Any],
) -> list[Result] | None:
    """All runs at once; None where the device has no memory for them."""
    try:
        return simulate_vmapped(runs, problem, clients, **options)
    except jax.errors.JaxRuntimeError as error:
        if lanes.is_out_of_memory(error):
            return None
        raise


def _side_by_side(
    jobs: Sequence[PlannedRun], clients: Holders, finished: Callable, options: dict[str, Any]
) -> list[Result]:
    results: dict[int, Result] = {}
    stop, errors = threading.Event(), list[BaseException]()
    one_at_a_time = threading.Lock()  # so that what is kept of them is never older than it was

    def run(i: int) -> None:
        if stop.is_set():
            return
        try:
            results[i] = _one(jobs[i], clients, options, _Stoppable(stop))
            with one_at_a_time:
                finished(i, results[i])
        except BaseException as error:
            errors.append(error)
            stop.set()  # the others end at their next block, or do not begin
            raise

    def first(places: list[int]) -> list[Future[None]]:
        """The first run of those that are alike, after which the others find its program."""
        run(places[0])
        return [] if stop.is_set() else [pool.submit(run, i) for i in places[1:]]

    if len(jobs) == 1:
        run(0)  # with all cores, and with JAX as it is set in this thread
        return [results[0]]
    options = {**options, "devices": 1}  # every core has a run of its own
    try:
        with ThreadPoolExecutor(cores()) as pool:
            try:
                waiting = [pool.submit(first, places) for places in _alike(jobs)]
                for one in waiting:
                    for other in _awaited(one):
                        _awaited(other)
            except BaseException:
                stop.set()
                raise
    except BaseException:
        if errors:  # what came first; the others were only told to end
            raise errors[0] from None
        raise
    return [results[i] for i in range(len(jobs))]


def _awaited(future: Future[T]) -> T:
    """The outcome of a future. Waits in short turns: Ctrl-C in another thread would not wake us."""
    while not future.done():
        wait([future], timeout=_LOOK)
    return future.result()


def _one(job: PlannedRun, clients: Holders, options: dict[str, Any], progress: Silent) -> Result:
    try:
        result = simulate(
            job.algorithm,
            job.problem,
            clients,
            seed=job.seed,
            resume=job.resume,
            progress=progress,
            **options,
        )
    except DivergedError as error:
        return error.result
    if result.status == "interrupted":  # one run keeps what it has; a sweep is to end
        raise KeyboardInterrupt
    return result


def _alike(jobs: Sequence[PlannedRun]) -> Iterator[list[int]]:
    """The places of jobs that one compiled program serves."""
    groups: dict[Any, list[int]] = {}
    for i, job in enumerate(jobs):
        kind = (jax.tree.structure(job.algorithm), jax.tree.structure(job.problem))
        groups.setdefault(kind, []).append(i)
    return iter(groups.values())


class _Stoppable(Silent):
    """Ends a run at its next block once everyone is to stop."""

    def __init__(self, stop: threading.Event):
        self.stop = stop

    def advance(self, round: int, rate: float) -> None:
        """Pass the Ctrl-C that only the main thread hears on to this one."""
        if self.stop.is_set():
            raise KeyboardInterrupt
