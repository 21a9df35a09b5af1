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

__all__ = [
    "CODASCA",
    "FFMDR",
    "SAGA",
    "SGDA",
    "DecoupledProx",
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
    "MomentumLocalSGDA",
    "Scaffold",
]
