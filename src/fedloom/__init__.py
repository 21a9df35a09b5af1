"""fedloom: federated optimisation beyond averaging.

import fedloom as fl

clients = fl.data.partition(fl.data.load("digits"), "label", clients=10, classes_each=2)
result = fl.simulate(
    fl.algorithms.Scaffold(lr=0.1), fl.problems.Multinomial(), clients, rounds=50
)
print(result.history)
"""

from typing import TYPE_CHECKING

from fedloom.lazy import names
from fedloom.version import __version__ as __version__
from fedloom.versions import (
    turn_off_false_alarms,
    turn_off_wrong_fusion,
    warn_of_wrong_versions,
)

# Python runs this file before any module of the package, so it is done before JAX computes.
turn_off_false_alarms()
turn_off_wrong_fusion()
warn_of_wrong_versions()

if TYPE_CHECKING:  # what the table below says, for editors and type checkers
    from fedloom import algorithms as algorithms
    from fedloom import cohorts as cohorts
    from fedloom import data as data
    from fedloom import deploy as deploy
    from fedloom import local as local
    from fedloom import models as models
    from fedloom import operators as operators
    from fedloom import optimisers as optimisers
    from fedloom import oracles as oracles
    from fedloom import preparation as preparation
    from fedloom import problems as problems
    from fedloom import protocol as protocol
    from fedloom import schedules as schedules
    from fedloom import sklearn as sklearn
    from fedloom.checking.check import check as check
    from fedloom.deploy.joint import joint_predict as joint_predict
    from fedloom.deploy.shares import save_shares as save_shares
    from fedloom.errors import DivergedError as DivergedError
    from fedloom.errors import FedloomError as FedloomError
    from fedloom.experiments.comparing import Comparison as Comparison
    from fedloom.experiments.comparing import compare as compare
    from fedloom.experiments.predicting import predict as predict
    from fedloom.experiments.sweeping import Sweep as Sweep
    from fedloom.experiments.sweeping import sweep as sweep
    from fedloom.federation.people.federate import federate as federate
    from fedloom.loading import load as load
    from fedloom.measuring.reference import reference as reference
    from fedloom.measuring.result import Result as Result
    from fedloom.operators import aggregators as aggregators
    from fedloom.operators import compressors as compressors
    from fedloom.pictures.notebook import partition_plot as partition_plot
    from fedloom.problems.base import Metric as Metric
    from fedloom.simulator.run import simulate as simulate
else:
    __all__, __getattr__, __dir__ = names(
        __name__,
        {
            "algorithms": (),
            "checking.check": ("check",),
            "cohorts": (),
            "data": (),
            "deploy": (),
            "deploy.joint": ("joint_predict",),
            "deploy.shares": ("save_shares",),
            "errors": ("DivergedError", "FedloomError"),
            "experiments.comparing": ("Comparison", "compare"),
            "experiments.predicting": ("predict",),
            "experiments.sweeping": ("Sweep", "sweep"),
            "federation.people.federate": ("federate",),
            "loading": ("load",),
            "local": (),
            "measuring.reference": ("reference",),
            "measuring.result": ("Result",),
            "models": (),
            "operators": (),
            "operators.aggregators": (),
            "operators.compressors": (),
            "optimisers": (),
            "oracles": (),
            "pictures.notebook": ("partition_plot",),
            "preparation": (),
            "problems": (),
            "problems.base": ("Metric",),
            "protocol": (),
            "schedules": (),
            "simulator.run": ("simulate",),
            "sklearn": (),
        },
    )
