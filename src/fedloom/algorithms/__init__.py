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
from fedloom.algorithms.vertical.egvfl import EGVFL
from fedloom.algorithms.vertical.egvfl_augmented import EGVFLAugmented
from fedloom.algorithms.vertical.egvfl_compressed import EGVFLCompressed
from fedloom.algorithms.vertical.egvfl_coordinate import EGVFLCoordinate
from fedloom.algorithms.vertical.egvfl_dual import EGVFLDual
from fedloom.algorithms.vertical.egvfl_error_feedback import EGVFLErrorFeedback
from fedloom.algorithms.vertical.egvfl_nonlinear import EGVFLNonlinear
from fedloom.algorithms.vertical.egvfl_partial import EGVFLPartial
from fedloom.algorithms.vertical.egvfl_proximal import EGVFLProximal
from fedloom.algorithms.vertical.egvfl_slacks import EGVFLSlacks
from fedloom.algorithms.vertical.sharing_admm import SharingADMM
from fedloom.algorithms.vertical.vertical_agd import VerticalAGD
from fedloom.algorithms.vertical.vertical_gd import VerticalGD
from fedloom.algorithms.wrappers.compressed import Compressed

__all__ = [
    "EGVFL",
    "Compressed",
    "DecoupledProx",
    "EGVFLAugmented",
    "EGVFLCompressed",
    "EGVFLCoordinate",
    "EGVFLDual",
    "EGVFLErrorFeedback",
    "EGVFLNonlinear",
    "EGVFLPartial",
    "EGVFLProximal",
    "EGVFLSlacks",
    "FastFedDA",
    "FedADMM",
    "FedAvg",
    "FedDR",
    "FedDualAvg",
    "FedMid",
    "FedProx",
    "Scaffold",
    "SharingADMM",
    "VerticalAGD",
    "VerticalGD",
]
