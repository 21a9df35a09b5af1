"""Simulate a federation: blocks of rounds, each one call of a compiled program."""

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence

import jax

from fedloom.data.parties import Holders
from fedloom.measuring.reference import Reference
from fedloom.measuring.result import Result
from fedloom.metrics import chosen as metrics_of
from fedloom.parameters import Rule, at_least, at_least_zero, check, flag, one_of
from fedloom.problems.base import Metric, Problem
from fedloom.protocol import Algorithm
from fedloom.rounds.compiling import kept_programs
from fedloom.rounds.given import check_all, named
from fedloom.simulator import hosts, places, resuming
from fedloom.simulator.progress import Progress, progress_for
from fedloom.simulator.simulation import Simulation
from fedloom.simulator.task import Task
from fedloom.types import Tree
from fedloom.version import __version__


@named
def simulate(
    algorithm: Algorithm,
    problem: Problem,
    clients: Holders,
    *,
    rounds: int = 100,
    batch_size: int | None = 32,
    seed: int = 0,
    eval_every: int = 10,
    metrics: Sequence[str] | Mapping[str, Metric | None] | None = None,
    precision: str = "float32",
    optimum: Reference | Tree = None,
    resume: Result | None = None,
    checkpoint: Callable[[Result], None] | None = None,
    checkpoint_seconds: float = 10.0,
    devices: int | None = None,
    lanes: int | None = None,
    deterministic: bool = True,
    progress: bool | Progress | None = None,
    on_evaluation: Callable[[dict[str, float]], None] | None = None,
) -> Result:
    """Run an algorithm on a problem over clients, and return what came of it.

    Args:
        algorithm: The method, such as `fl.algorithms.FedAvg(lr=0.1)`.
        problem: What is optimised, such as `fl.problems.Logistic(l2=1e-3)`.
        clients: Who holds what, from `fl.data.partition`, `fl.data.from_arrays`, or for a vertical
            problem `fl.data.from_parties`.
        rounds: How many rounds.
        batch_size: Rows in a stochastic gradient, drawn without replacement; None: full gradients.
            Vertical methods use all rows, but for split training, C-VFL and EF-VFL.
        seed: The same seed gives the same bits.
        eval_every: Rounds between two evaluations.
        metrics: Names (`fedloom list metrics`), or a mapping from a name to
            `fl.Metric(function, larger_is_better=...)`, where `function(model, rows)` returns a
            number for each row, or with `of="scores"` `function(scores, labels)` one number for all
            rows; None: the problem's own, also as the value of a name.
        precision: "float32" or "float64".
        optimum: A known solution (from `fl.reference`, a model, or its vector), for the metrics
            "gap", "relative_gap", "distance" and "optimality".
        resume: A result to go on from, up to `rounds` rounds in all. With the same arguments the
            run ends with the same bits as one that was never interrupted; with another method or
            seed, which a private method may not have, `about["before"]` of the result names those
            of the earlier rounds.
        checkpoint: Called now and then with the result so far, from which a run can resume. Of
            several processes only the first calls it, shows progress and calls `on_evaluation`.
        checkpoint_seconds: The time between two such calls, if rounds are not longer.
        devices: Over how many local devices the cohort is divided, or of a CPU over how many cores;
            None: all devices there are, in a job of `jax.distributed` those of all its processes,
            and all cores where this is faster: for four clients of a large model or more, and for
            others where a trial shows it.
        lanes: How many clients of a cohort are computed side by side; None: on a CPU as many as
            are worth a kernel, of a large model one, and on an accelerator as many as fit into its
            memory. Other lanes may round differently; other cores do not.
        deterministic: Whether a GPU may use only programs that give the same bits whenever they are
            compiled. False is quicker there (by up to 1.7 times on an H200) but the same seed then
            gives the same bits only while the compiled program is in the cache. A CPU always gives
            the same bits.
        progress: Whether to show a bar; None: where standard error is a terminal.
        on_evaluation: Called with the new row of the history after each evaluation.

    Returns:
        The model, the history, each client's metrics and the state. Ctrl-C ends the run early and
        returns what was done, with status "interrupted".

    Raises:
        DivergedError: The iterates are no longer finite. `error.result` holds the last good state.
    """
    check_all("simulate", algorithm, problem, clients)
    check("simulate", "rounds", rounds, at_least(1))
    check("simulate", "batch_size", batch_size, at_least(1).or_none("full gradients"))
    check("simulate", "seed", seed, _seed)
    check("simulate", "eval_every", eval_every, at_least(1))
    check("simulate", "precision", precision, one_of("float32", "float64"))
    check("simulate", "lanes", lanes, at_least(1).or_none("as many as fit"))
    check("simulate", "deterministic", deterministic, flag)
    check("simulate", "checkpoint_seconds", checkpoint_seconds, at_least_zero)
    if resume is not None:
        resuming.check(resume, algorithm, rounds)
    joined = jax.distributed.is_initialized()  # by other processes, which compute the same run
    together = hosts.Together() if joined else None
    with (
        kept_programs(),
        jax.enable_x64(precision == "float64"),
        together or contextlib.nullcontext(),
        places.faults_told(),
    ):
        if joined:
            hosts.check_same(
                {
                    "the version of fedloom or JAX": (__version__, jax.__version__),
                    "the method or the problem": (repr(algorithm), repr(problem)),
                    "rounds, seed or eval_every": (rounds, seed, eval_every),
                    "batch_size or precision": (str(batch_size), precision),
                    "metrics": None if metrics is None else sorted(metrics),
                    "lanes or deterministic": (str(lanes), deterministic),
                    "the result that is resumed": None if resume is None else resume.state,
                }
            )
            checkpoint_seconds = math.inf if checkpoint is None else checkpoint_seconds
            checkpoint, on_evaluation = hosts.led(checkpoint), hosts.led(on_evaluation)
        task = Task(
            algorithm,
            problem,
            clients,
            batch_size=batch_size,
            metrics=metrics,
            precision=precision,
            optimum=optimum,
            devices=devices,
            deterministic=deterministic,
            lanes=lanes,
        )
        run = Simulation(
            task,
            algorithm,
            seed,
            rounds=rounds,
            eval_every=eval_every,
            resume=resume,
            on_evaluation=on_evaluation,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
        )
        shown = sys.stderr.isatty() if progress is None else progress
        bar: Progress | None = None
        if shown is not False and (not joined or hosts.leads()):
            bar = progress_for(
                shown,
                type(algorithm).__name__,
                done=run.state.round,
                total=rounds,
                metric=metrics_of.headline(task.metrics, problem) or "",
            )
        if joined:
            bar = hosts.Shared(bar)
        try:
            run.run(bar, together)
        finally:
            if bar is not None:
                bar.close()
        return run.result()


_seed = Rule(
    lambda v: isinstance(v, int) and 0 <= v < 2**63, "a whole number from 0 to 2^63 - 1", 0
)
