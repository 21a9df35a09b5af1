"""Simulate a federation: blocks of rounds, each one call of a compiled program."""

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence

import jax

from fedloom import interrupts
from fedloom.data.parties import Holders
from fedloom.draws import SEED
from fedloom.measuring.reference import Reference
from fedloom.measuring.result import Result
from fedloom.metrics import chosen as metrics_of
from fedloom.parameters import at_least, at_least_zero, check, flag, one_of
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
    """Train with a method, in the simulator, and return the result.

    Args:
        algorithm: The method, such as `fl.algorithms.FedAvg(lr=0.1)`.
        problem: What is optimised, such as `fl.problems.Logistic(l2=1e-3)`.
        clients: The clients and their data, from `fl.data.partition` or `fl.data.from_arrays`; for
            a vertical problem from `fl.data.from_parties`.
        rounds: The number of rounds.
        batch_size: Rows in a stochastic gradient, drawn without replacement; None: full gradients.
            Vertical methods use all rows, except split training, C-VFL and EF-VFL.
        seed: The random seed. The same seed gives the same bits.
        eval_every: The number of rounds from one evaluation to the next.
        metrics: What is measured: a list of names (`fedloom list metrics`), or a mapping from each
            name to None (that metric) or to `fl.Metric(function, larger_is_better=...)` (one of
            your own); None: the metrics of the problem.
        precision: "float32" or "float64".
        optimum: A known solution (from `fl.reference`, a model, or its vector), for the metrics
            "gap", "relative_gap", "distance" and "optimality".
        resume: A result to continue from; `rounds` then counts its rounds too. With the same
            arguments the run ends with the same bits as one that was never interrupted. With
            another method (refused if one of the two is private), problem, batch size or seed,
            `about["before"]` of the new result names those of the earlier rounds. Other clients
            are refused.
        checkpoint: Called from time to time with the result so far, which `resume` takes. If
            several processes compute the run, only the first one calls this and `on_evaluation`,
            and shows progress.
        checkpoint_seconds: The least time between two calls of `checkpoint`.
        devices: The number of local devices, or on a CPU of cores, that share a cohort; None: all
            devices (with `jax.distributed`, those of all processes). On a CPU None takes all cores
            for cohorts of four or more clients of a large model, and otherwise tries whether they
            make the run faster.
        lanes: How many clients of a cohort are computed side by side. None: on an accelerator, as
            many as fit into its memory; on a CPU, as many as use a core well, which is one for a
            large model. Another number may change the last digits of results; the number of cores
            does not.
        deterministic: On a GPU, whether only programs are used that give the same bits each time
            they are compiled. False is faster (by up to 1.7 times on an H200), but then the same
            seed gives the same bits only as long as the compiled program is in the cache. A CPU
            always gives the same bits.
        progress: Whether to show a progress bar; None: only if standard error is a terminal.
        on_evaluation: Called after each evaluation with the new row of the history.

    Returns:
        The model, the history, each client's metrics and the state. Ctrl-C ends the run early,
        after the rounds in progress, and returns the result so far, with status "interrupted";
        pressed again after a second it does not wait. A handler of your own for SIGINT stays.

    Raises:
        DivergedError: The iterates are no longer finite. `error.result` holds the last good state.
    """
    check_all("simulate", algorithm, problem, clients)
    check("simulate", "rounds", rounds, at_least(1))
    check("simulate", "batch_size", batch_size, at_least(1).or_none("full gradients"))
    check("simulate", "seed", seed, SEED)
    check("simulate", "eval_every", eval_every, at_least(1))
    check("simulate", "precision", precision, one_of("float32", "float64"))
    check("simulate", "lanes", lanes, at_least(1).or_none("as many as fit"))
    check("simulate", "deterministic", deterministic, flag)
    check("simulate", "checkpoint_seconds", checkpoint_seconds, at_least_zero)
    if resume is not None:
        resuming.check(resume, algorithm, clients, rounds)
    joined = jax.distributed.is_initialized()  # by other processes, which compute the same run
    with (
        kept_programs(),
        jax.enable_x64(precision == "float64"),
        interrupts.listening() if joined else contextlib.nullcontext(),  # all end, or none
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
        with interrupts.listening():
            try:
                run.run(bar, joined)
            finally:
                if bar is not None:
                    bar.close()
            return run.result()
