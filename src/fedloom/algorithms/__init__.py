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
from fedloom.algorithms.personal.local_training import LocalTraining
from fedloom.algorithms.personal.mutual_learning import MutualLearning
from fedloom.algorithms.personal.per_fedavg import PerFedAvg
from fedloom.algorithms.personal.pfedme import PFedMe
from fedloom.algorithms.personal.quantisation import Quantisation
from fedloom.algorithms.personal.quantized_training import QuantizedTraining
from fedloom.algorithms.personal.quped import QuPeD
from fedloom.algorithms.personal.qupel import QuPeL
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
    "LocalTraining",
    "MutualLearning",
    "PFedMe",
    "PerFedAvg",
    "Private",
    "QFedAvg",
    "QFedSGD",
    "QuPeD",
    "QuPeL",
    "Quantisation",
    "QuantizedTraining",
    "Scaffold",
    "Unreliable",
]
