"""The answers of `fedloom doctor`, made from the NumPy transcriptions alone.

PYTHONPATH=tests python -m papers.known_answers    writes src/fedloom/doctor/answers.json
"""

import json
from pathlib import Path

import jax
import numpy as np

from fedloom import draws
from fedloom.doctor import known_answers as doctor
from fedloom.population import assemble
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from papers import averaging, composite, minimax, personal, robust, vertical
from papers.minimax import AUCClients, Drawn
from papers.personal import Levels, Networks
from papers.reference import Draws, LogisticClients
from papers.vertical import Columns

FILE = Path(__file__).parents[2] / "src" / "fedloom" / "doctor" / "answers.json"
ROUNDS = doctor.ROUNDS


def with_rows(clients, classes):
    """Transcribed clients with the doctor's rows in the place of drawn ones."""
    clients.x, clients.y = map(list, zip(*doctor.rows(classes), strict=True))
    return clients


def answers():
    """For each task the numbers that its listing ends with."""
    tasks = doctor.tasks()
    two, three = with_rows(LogisticClients(), 2), with_rows(Networks(), 3)
    drawn = Draws(two, doctor.BATCH)
    local = {"lr": 0.3, "steps": 3, "rounds": ROUNDS}
    ranked = AUCClients(tasks["ffmdr"].clients, 0.02)
    solver = tasks["ffmdr"].algorithm.solver
    parties = Columns()
    parties.blocks, parties.b = doctor.columns()
    return {
        "fedavg": averaging.fedavg(two, drawn, cohort=3, **local),
        "scaffold": averaging.scaffold(two, drawn, cohort=3, **local)[0],
        "decoupled_prox": composite.decoupled_prox(two, drawn, l1=0.05, **local)[1],
        "ffmdr": minimax.ffmdr(
            ranked, Drawn(ranked, doctor.BATCH), beta=0.5, solver=solver, cohort=3, rounds=ROUNDS
        )[0],
        "drfa": robust.drfa(two, drawn, weight_lr=0.2, radius=0.15, cohort=3, **local)[0],
        "quped": quped(tasks["quped"], three),
        "egvfl": np.concatenate(vertical.egvfl(parties, 0.1, ROUNDS)[0]),
    }


def quped(task, networks):
    """Two architectures, 2 bits and full precision, from the networks that the library draws."""
    federation = assemble(task.problem, task.clients, doctor.BATCH, "float64")
    hub, groups = program.first_state(task.algorithm, federation, draws.key(0), Plan(None, None))
    first = {}
    for (_, members), states in zip(task.problem.groups(task.clients), groups, strict=True):
        for place, i in enumerate(members):
            first[i] = jax.tree.map(lambda leaf: np.asarray(leaf[place]), states)  # noqa: B023
    level = Levels(3, 12, pull=0.05, centre_lr=0.05)
    levels = [level, None, level, None]
    centres = [level.first(first[i].model, 4) if own else None for i, own in enumerate(levels)]
    return personal.quped(
        networks, Draws(networks, doctor.BATCH), np.asarray(hub.model),
        [first[i].model for i in range(4)], centres, levels, lr=0.3, common_lr=0.3, lp=0.4, steps=3,
        decay=1.0, rounds=ROUNDS, cohort=3,
        passes=lambda i, steps: steps // -(-len(networks.y[i]) // 4),
    )[0]  # fmt: skip


if __name__ == "__main__":
    with jax.enable_x64(True):
        found = {key: [float(f"{v:.15g}") for v in answer] for key, answer in answers().items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
