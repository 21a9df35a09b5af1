"""A stop at every family on embedded data: what goes wrong with averaging, and what helps."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedloom import algorithms, data, models, problems
from fedloom.data import Dataset
from fedloom.data.parties import Holders
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm


class Stop(NamedTuple):
    """A comparison of two or three methods that shows one thing."""

    name: str
    says: str  # what there is to see
    methods: Mapping[str, Algorithm]
    problem: Problem
    clients: Holders | Callable[[int], Holders]  # the latter divides rows anew for each seed
    columns: tuple[str, ...]  # the metrics of the table; the first is the one in the picture
    options: Mapping[str, Any]
    seeds: tuple[int, ...] = (0, 1, 2)
    by_client: str | None = None  # a metric of which each client's value is shown


def stops() -> list[Stop]:
    """The tour."""
    return [hospitals(), averaging(), composite(), minimax(), robust(), personal(), vertical()]


def hospitals() -> Stop:
    """Who gains from learning together: four hospitals, unlike each other and of unlike size."""
    patients = data.load("heart")

    def divided(seed: int) -> Holders:
        return data.partition(patients, "client", test_fraction=0.3, seed=seed)

    return Stop(
        "hospitals",
        "Heart disease at 4 hospitals: who gains from one model for all, who from models of their "
        "own that learn from each other?",
        {
            "each alone": algorithms.LocalTraining(lr=0.1),
            "FedAvg": algorithms.FedAvg(lr=0.1),
            "QuPeD": algorithms.QuPeD(lr=0.1, common_lr=0.1),
        },
        problems.Personal(models.MLP(()), l2=0.01),
        divided,
        ("loss", "loss_worst", "accuracy"),
        {"rounds": 60, "batch_size": 16, "metrics": ("loss", "accuracy")},
        seeds=tuple(range(10)),  # chance in who is held out is larger than that of training
        by_client="loss",
    )


def averaging() -> Stop:
    """Drift, and control variates against it."""
    clients = data.partition(
        data.load("digits"), "label", clients=10, classes_each=2, test_fraction=0.2
    )
    return Stop(
        "averaging",
        "Digits over 10 clients with 2 classes each: drift slows FedAvg down.",
        {
            "FedAvg": algorithms.FedAvg(lr=0.5, local_steps=20),
            "SCAFFOLD": algorithms.Scaffold(lr=0.5, local_steps=20),
        },
        problems.Multinomial(l2=1e-4, intercept=True),
        clients,
        ("objective", "accuracy", "accuracy_worst"),
        {"rounds": 60, "batch_size": 16, "metrics": ("accuracy", "loss", "objective")},
    )


def composite() -> Stop:
    """Sparse models."""
    clients = data.synthetic(10, 10, clients=20, samples=300, features=30)
    return Stop(
        "composite",
        "A sparse model over 20 unlike clients: averaged proximal steps stop far from it.",
        {
            "FedMid": algorithms.FedMid(lr=1.0, local_steps=5),
            "DecoupledProx": algorithms.DecoupledProx(lr=1.0, local_steps=5),
        },
        problems.Logistic(l2=0.01, regulariser=problems.L1(1e-3)),
        clients,
        ("optimality", "sparsity", "objective"),
        {
            "rounds": 300,
            "batch_size": None,
            "precision": "float64",
            "metrics": ("optimality", "sparsity", "objective"),
        },
        seeds=(0,),  # nothing is drawn
    )


def minimax() -> Stop:
    """AUC where every client has one class."""
    clients = data.partition(
        standardised(data.load("breast_cancer")), "one_class", clients=10, test_fraction=0.2
    )
    return Stop(
        "minimax",
        "Tumours over 10 clients with one class each: AUC without pairing rows.",
        {
            "Local SGDA": algorithms.LocalSGDA(lr=0.02, dual_lr=0.02, local_steps=10),
            "CODASCA": algorithms.CODASCA(lr=0.02, dual_lr=0.02, local_steps=10),
            "FFMDR": algorithms.FFMDR(beta=1.0, solver=algorithms.Exact()),
        },
        problems.AUC(),
        clients,
        ("auc",),
        {"rounds": 100, "batch_size": 20, "metrics": ("auc", "objective")},
    )


def robust() -> Stop:
    """The worst-off client."""
    clients = data.partition(data.load("digits"), "one_class", clients=10, test_fraction=0.3)
    return Stop(
        "robust",
        "Digits, one class a client: DRFA gives the worst-off client more say.",
        {
            "FedAvg": algorithms.FedAvg(lr=0.02, local_steps=10),
            "DRFA": algorithms.DRFA(lr=0.02, weight_lr=0.01, local_steps=10),
        },
        problems.Multinomial(intercept=True),
        clients,
        ("accuracy_worst", "accuracy", "accuracy_std"),
        {"rounds": 150, "batch_size": 20, "metrics": ("accuracy", "loss")},
    )


def personal() -> Stop:
    """Each client its own quantised network."""
    clients = data.partition(
        data.load("digits"), "label", clients=10, classes_each=3, test_fraction=0.25
    )
    two_bits = algorithms.Quantisation(bits=2, pull=5e-6, freeze_after=43)
    return Stop(
        "personal",
        "Digits over 10 clients with 3 classes each: own networks, one of them with 2-bit weights.",
        {
            "FedAvg": algorithms.FedAvg(lr=0.1),
            "QuPeD": algorithms.QuPeD(lr=0.1, common_lr=0.1),
            "QuPeD, 2 bits": algorithms.QuPeD(lr=0.1, common_lr=0.1, quantise=two_bits),
        },
        problems.Personal(models.MLP((32, 16))),
        clients,
        ("accuracy", "accuracy_worst"),
        {"rounds": 30, "batch_size": 25, "eval_every": 5, "metrics": ("accuracy", "loss")},
    )


def vertical() -> Stop:
    """The same patients, other measurements at each party."""
    parties = data.partition(
        data.load("breast_cancer"), "features", parties=3, standardise=True, test_fraction=0.2
    )
    return Stop(
        "vertical",
        "Tumours measured by 3 parties, diagnoses at one of them: only parts of scores travel.",
        {
            "gradient descent": algorithms.VerticalGD(),
            "EGVFL": algorithms.EGVFL(beta_trick=True),
        },
        problems.Vertical(loss="logistic", l2=1.0),
        parties,
        ("relative_gap", "accuracy", "residual"),
        {
            "rounds": 200,
            "precision": "float64",
            "metrics": ("relative_gap", "accuracy", "loss", "residual"),
        },
        seeds=(0,),  # nothing is drawn
    )


def standardised(dataset: Dataset) -> Dataset:
    """Features of mean 0 and deviation 1."""
    x = np.asarray(dataset.x, float)
    return dataclasses.replace(dataset, x=(x - x.mean(0)) / x.std(0))
