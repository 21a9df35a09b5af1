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
from fedloom.algorithms.minimax.codasca import CODASCA
from fedloom.algorithms.minimax.fed_norm_sgda import FedNormSGDA
from fedloom.algorithms.minimax.fednest import FedNest
from fedloom.algorithms.minimax.fedsgda_m import FedSGDAM
from fedloom.algorithms.minimax.fedsgda_plus import FedSGDAPlus
from fedloom.algorithms.minimax.ffmdr import FFMDR
from fedloom.algorithms.minimax.ffmdr_consensus import FFMDRConsensus
from fedloom.algorithms.minimax.inner import SGDA, Exact
from fedloom.algorithms.minimax.local_sgda import LocalSGDA
from fedloom.algorithms.minimax.local_sgda_plus import LocalSGDAPlus
from fedloom.algorithms.minimax.momentum_local_sgda import MomentumLocalSGDA
from fedloom.algorithms.minimax.saga import SAGA
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
from fedloom.algorithms.wrappers import Compressed, Poisoned, Private, Robust, Unreliable

__all__ = [
    "AFL",
    "CODASCA",
    "DRFA",
    "DRFAGA",
    "EGVFL",
    "FFMDR",
    "SAGA",
    "SGDA",
    "Compressed",
    "DRFAProx",
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
    "Exact",
    "FFMDRConsensus",
    "FastFedDA",
    "FedADMM",
    "FedAvg",
    "FedDR",
    "FedDualAvg",
    "FedMid",
    "FedNest",
    "FedNormSGDA",
    "FedProx",
    "FedSGDAM",
    "FedSGDAPlus",
    "LocalSGDA",
    "LocalSGDAPlus",
    "LocalTraining",
    "MomentumLocalSGDA",
    "MutualLearning",
    "PFedMe",
    "PerFedAvg",
    "Poisoned",
    "Private",
    "QFedAvg",
    "QFedSGD",
    "QuPeD",
    "QuPeL",
    "Quantisation",
    "QuantizedTraining",
    "Robust",
    "Scaffold",
    "SharingADMM",
    "Unreliable",
    "VerticalAGD",
    "VerticalGD",
]
