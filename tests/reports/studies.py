"""Small runs that leave every kind of data a report can show."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import fedloom as fl
from fedloom.checksums import write_json
from fedloom.cohorts import everyone
from fedloom.deploy import linear
from fedloom.parameters import param, positive
from fedloom.protocol import Algorithm, algorithm, ask

HOSTILE = '</script><img src=x onerror=alert(1)> & "quotes"'


class Shown(NamedTuple):
    weights: object


class Hub(NamedTuple):
    model: object
    weights: object


@algorithm
class Favouring(Algorithm):
    """Averaging that leans towards the clients with the largest loss, and shows it."""

    lr: float = param(positive, "step size")

    def init_hub(self, fed, key, /):
        return Hub(fed.init_model(key), jnp.full(fed.n, 1 / fed.n))

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=everyone(fed.n))
        changes, losses = replies.value
        weights = hub.weights * jnp.exp(self.lr * losses)
        weights = weights / weights.sum()
        return Hub(hub.model + weights @ changes, weights), Shown(weights)

    def train(self, client, model, f, key, /):
        return client, (-self.lr * f.grad(model, key), f.value(model, key))


def clients(count=4, names=None):
    rng = np.random.default_rng(0)
    parts = [(rng.normal(i / 4, 1, (30, 6)), rng.integers(0, 2, 30)) for i in range(count)]
    return fl.data.from_arrays(parts, names=names)


def robust(folder):
    """Two methods and two seeds; one client has a hostile name."""
    names = ("north", "south", HOSTILE, "west")
    for name, method in {"FedAvg": fl.algorithms.FedAvg(lr=0.1), "lean": Favouring(lr=0.1)}.items():
        for seed in (0, 1):
            run = fl.simulate(
                method, fl.problems.Logistic(), clients(names=names), rounds=12, batch_size=5,
                eval_every=3, seed=seed,
            )  # fmt: skip
            run.save(folder / name / f"seed-{seed}")
    return folder


def sparse(folder):
    """A composite problem, its gap, the size of each client's model, and what a sweep has tried."""
    problem = fl.problems.Logistic(regulariser=fl.problems.L1(0.05))
    method = fl.algorithms.DecoupledProx(lr=0.5)
    run = fl.simulate(
        method, problem, clients(), rounds=12, batch_size=None, eval_every=3,
        metrics=("accuracy", "gap", "sparsity"), optimum=np.zeros(6),  # any point will do here
    )  # fmt: skip
    run.about["sizes"] = [100, 200, 300, 400]
    hub = fl.deploy.take(method, problem, clients(), run)
    run.about["coefficients"] = linear.rows(hub, {HOSTILE: hub, "south": hub})
    run.save(folder)
    trials = [
        {"method": HOSTILE, "lr": lr, "solver": HOSTILE, "loss": 1 / lr, "spread": 0.1, "seeds": 2}
        for lr in (0.01, 0.1, 1.0)
    ]
    trials.append({"method": "other", "lr": 9.0, "loss": float("nan"), "spread": None, "seeds": 2})
    rows = [{**row, "rounds": 8} for row in trials]
    facts = {"metric": "loss", "larger_is_better": False, "over": ["lr", "solver"], "trials": rows}
    write_json(folder / "sweep.json", facts)
    return folder
