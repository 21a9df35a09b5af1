"""`fedloom demo`: what unlike sites do to averaging, and what helps, on embedded data."""

import argparse
from pathlib import Path
from typing import Any

from fedloom import algorithms, data, problems
from fedloom.cli.output import bytes_text, show_table
from fedloom.engines.simulator import simulate
from fedloom.reports.curves import curves

_ROUNDS = 200


def add(verbs: Any) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("demo", help="a short tour on embedded data")
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    print("Handwritten digits over 10 clients, each with 2 of the 10 classes.\n")
    digits = data.load("digits")
    clients = data.partition(digits, "label", clients=10, classes_each=2, test_fraction=0.2)
    problem = problems.Multinomial(l2=1e-4, intercept=True)
    methods = {
        "FedAvg": algorithms.FedAvg(lr=0.5, local_steps=20),
        "SCAFFOLD": algorithms.Scaffold(lr=0.5, local_steps=20),
    }
    results = {
        name: simulate(
            method, problem, clients, rounds=_ROUNDS, batch_size=16, eval_every=5,
            metrics=("accuracy", "loss", "objective"), progress=True,
        )
        for name, method in methods.items()
    }  # fmt: skip
    show_table(
        [
            {
                "method": name,
                "accuracy": result.final["accuracy"],
                "worst client": result.final["accuracy_worst"],
                "objective": result.final["objective"],
                "sent by clients": bytes_text(result.final["bytes_up"]),
                "seconds": result.final["seconds"],
            }
            for name, result in results.items()
        ],
        title=f"After {_ROUNDS} rounds, on each client's own test rows",
    )
    picture = arguments.out / "digits.png"
    curves(
        results, picture, metrics=("accuracy", "accuracy_worst", "objective"),
        title="Digits by label over 10 clients",
    )  # fmt: skip
    data.picture(clients, arguments.out / "who-holds-what.png")
    _vertical(arguments.out)
    print(f"pictures in {arguments.out}: {picture.name}, who-holds-what.png, tumours.png")
    return 0


def _vertical(out: Path) -> None:
    """The same patients, other measurements at each of three parties."""
    print("\n569 tumours: three parties hold ten measurements each, one of them the diagnoses.\n")
    tumours = data.load("breast_cancer")
    parties = data.partition(
        tumours, "features", parties=3, standardise=True, test_fraction=0.2, seed=0
    )
    problem = problems.Vertical(loss="logistic", l2=1.0)
    results = {
        name: simulate(
            method, problem, parties, rounds=_ROUNDS, eval_every=10, precision="float64",
            metrics=("accuracy", "loss", "objective", "residual"), progress=True,
        )
        for name, method in {
            "EGVFL": algorithms.EGVFL(beta_trick=True),
            "gradient descent": algorithms.VerticalGD(),
        }.items()
    }  # fmt: skip
    show_table(
        [
            {
                "method": name,
                "test accuracy": result.final["accuracy"],
                "objective": result.final["objective"],
                "|Ax - z|": result.final["residual"],
                "sent by parties": bytes_text(result.final["bytes_up"]),
                "seconds": result.final["seconds"],
            }
            for name, result in results.items()
        ],
        title=f"After {_ROUNDS} iterations; labels and features never left their owners",
    )
    curves(results, out / "tumours.png", metrics=("objective", "accuracy"), title="Three parties")
