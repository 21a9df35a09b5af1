"""fedloom: federated optimisation beyond averaging.

import fedloom as fl

clients = fl.data.partition(fl.data.load("digits"), "label", clients=10, classes_each=2)
result = fl.simulate(
    fl.algorithms.Scaffold(lr=0.1), fl.problems.Multinomial(), clients, rounds=50
)
print(result.history)
"""

from fedloom import algorithms, data, models, problems
from fedloom.engines.flare.federating import federate
from fedloom.engines.reference import reference
from fedloom.engines.result import Result, load
from fedloom.engines.simulator import simulate
from fedloom.errors import DivergedError, FedloomError
from fedloom.experiments.comparing import Comparison, compare

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "DivergedError",
    "FedloomError",
    "Result",
    "algorithms",
    "compare",
    "data",
    "federate",
    "load",
    "models",
    "problems",
    "reference",
    "simulate",
]
