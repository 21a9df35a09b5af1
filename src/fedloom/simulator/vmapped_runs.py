"""Several runs that differ in real-valued parameters and seeds, as one more axis of one program.

An accelerator computes them all in about the time of one. The first rounds and the evaluations are
those of `simulate`, run by run.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from fedloom.data.parties import Holders
from fedloom.measuring.reference import Reference
from fedloom.measuring.result import Result
from fedloom.population import Federation
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.rounds import program
from fedloom.rounds.compiling import compiled, kept_programs
from fedloom.rounds.parts import Plan
from fedloom.simulator.simulation import Simulation
from fedloom.simulator.task import Task
from fedloom.types import Array, Tree


def simulate_vmapped(
    runs: Sequence[tuple[Algorithm, int]],
    problem: Problem,
    clients: Holders,
    *,
    rounds: int = 100,
    batch_size: int | None = 32,
    eval_every: int = 10,
    metrics: Sequence[str] | None = None,
    precision: str = "float32",
    optimum: Reference | Tree = None,
    lanes: int | None = None,
    deterministic: bool = True,
) -> list[Result]:
    """The results of runs given as pairs of a method and a seed; a diverged one ends early."""
    with kept_programs(), jax.enable_x64(precision == "float64"):
        task = Task(
            runs[0][0],
            problem,
            clients,
            batch_size=batch_size,
            metrics=metrics,
            precision=precision,
            optimum=optimum,
            devices=1,
            deterministic=deterministic,
            lanes=lanes,
        )
        all_runs = [
            Simulation(task, algorithm, seed, rounds=rounds, eval_every=eval_every)
            for algorithm, seed in runs
        ]
        advance = compiled(_advance, "plan", deterministic=deterministic)
        for done in range(0, rounds, eval_every):
            stop = min(rounds, done + eval_every)
            outcome = advance(
                _stack([run.algorithm for run in all_runs]),
                task.federation,
                _stack([run.state.hub for run in all_runs]),
                _stack([run.state.clients for run in all_runs]),
                jnp.stack([run.root for run in all_runs]),
                jnp.asarray(done, jnp.int32),
                jnp.asarray(stop, jnp.int32),
                plan=task.plan,
            )
            for i, run in enumerate(all_runs):
                run.take(jax.tree.map(lambda leaf, i=i: leaf[i], outcome), stop)
        for run in all_runs:
            run.status = "done" if run.status == "unfinished" else run.status
        return [run.result() for run in all_runs]


def _advance(
    algorithms: Algorithm,
    federation: Federation,
    hubs: Tree,
    clients: Tree,
    roots: Array,
    start: Array,
    stop: Array,
    plan: Plan,
) -> program.Outcome:
    def one(algorithm: Algorithm, hub: Tree, states: Tree, root: Array) -> program.Outcome:
        return program.rounds(algorithm, federation, hub, states, root, start, stop, plan)

    return jax.vmap(one)(algorithms, hubs, clients, roots)


def _stack(trees: Sequence[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *trees)
