"""fedloom: federated optimisation beyond averaging.

import fedloom as fl

clients = fl.data.partition(fl.data.load("digits"), "label", clients=10, classes_each=2)
result = fl.simulate(
    fl.algorithms.Scaffold(lr=0.1), fl.problems.Multinomial(), clients, rounds=50
)
print(result.history)
"""

import importlib
from typing import Any

from fedloom import (
    algorithms,
    cohorts,
    data,
    deploy,
    local,
    models,
    operators,
    preparation,
    problems,
    protocol,
)
from fedloom.errors import DivergedError, FedloomError
from fedloom.experiments.comparing import Comparison, compare
from fedloom.experiments.predicting import predict
from fedloom.experiments.sweeping import Sweep, sweep
from fedloom.federation.people.federate import federate
from fedloom.loading import load
from fedloom.measuring.prediction import joint_predict, save_shares
from fedloom.measuring.reference import reference
from fedloom.measuring.result import Result
from fedloom.operators import aggregators, compressors
from fedloom.pictures.notebook import partition_plot
from fedloom.problems.base import Metric
from fedloom.simulator.run import simulate
from fedloom.version import __version__ as __version__
from fedloom.versions import turn_off_wrong_fusion, warn_of_wrong_versions

turn_off_wrong_fusion()
warn_of_wrong_versions()

__all__ = [
    "Comparison",
    "DivergedError",
    "FedloomError",
    "Metric",
    "Result",
    "Sweep",
    "aggregators",
    "algorithms",
    "cohorts",
    "compare",
    "compressors",
    "data",
    "deploy",
    "federate",
    "joint_predict",
    "load",
    "local",
    "models",
    "operators",
    "partition_plot",
    "predict",
    "preparation",
    "problems",
    "protocol",
    "reference",
    "save_shares",
    "simulate",
    "sklearn",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """`fedloom.sklearn` on first use: it takes as long to import as all the rest."""
    if name == "sklearn":
        return importlib.import_module("fedloom.sklearn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
