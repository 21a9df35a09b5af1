"""The methods, one file each, in the folder of their family."""

from fedloom.algorithms.averaging.fedavg import FedAvg
from fedloom.algorithms.averaging.fedprox import FedProx
from fedloom.algorithms.averaging.scaffold import Scaffold
from fedloom.algorithms.composite.decoupled_prox import DecoupledProx
from fedloom.algorithms.composite.fast_fedda import FastFedDA
from fedloom.algorithms.composite.fedadmm import FedADMM
from fedloom.algorithms.composite.feddr import FedDR
from fedloom.algorithms.composite.feddualavg import FedDualAvg
from fedloom.algorithms.composite.fedmid import FedMid
from fedloom.algorithms.robust.afl import AFL
from fedloom.algorithms.robust.drfa import DRFA
from fedloom.algorithms.robust.drfa_ga import DRFAGA
from fedloom.algorithms.robust.drfa_prox import DRFAProx
from fedloom.algorithms.robust.q_fedavg import QFedAvg
from fedloom.algorithms.robust.q_fedsgd import QFedSGD
from fedloom.algorithms.wrappers import Private, Unreliable

__all__ = [
    "AFL",
    "DRFA",
    "DRFAGA",
    "DRFAProx",
    "DecoupledProx",
    "FastFedDA",
    "FedADMM",
    "FedAvg",
    "FedDR",
    "FedDualAvg",
    "FedMid",
    "FedProx",
    "Private",
    "QFedAvg",
    "QFedSGD",
    "Scaffold",
    "Unreliable",
]
