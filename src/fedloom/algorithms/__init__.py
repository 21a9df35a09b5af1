"""The methods, one file each, in the folder of their family.

A family loads when one of its methods is first used.
"""

from typing import TYPE_CHECKING

from fedloom.lazy import names

if TYPE_CHECKING:  # what the table below says, for editors and type checkers
    from fedloom.algorithms.averaging.fedavg import FedAvg as FedAvg
    from fedloom.algorithms.averaging.feddyn import FedDyn as FedDyn
    from fedloom.algorithms.averaging.fednova import FedNova as FedNova
    from fedloom.algorithms.averaging.fedopt import FedAdagrad as FedAdagrad
    from fedloom.algorithms.averaging.fedopt import FedAdam as FedAdam
    from fedloom.algorithms.averaging.fedopt import FedAvgM as FedAvgM
    from fedloom.algorithms.averaging.fedopt import FedYogi as FedYogi
    from fedloom.algorithms.averaging.fedprox import FedProx as FedProx
    from fedloom.algorithms.averaging.scaffnew import Scaffnew as Scaffnew
    from fedloom.algorithms.averaging.scaffold import Scaffold as Scaffold
    from fedloom.algorithms.composite.decoupled_prox import DecoupledProx as DecoupledProx
    from fedloom.algorithms.composite.fast_fedda import FastFedDA as FastFedDA
    from fedloom.algorithms.composite.fedadmm import FedADMM as FedADMM
    from fedloom.algorithms.composite.fedcanon import FedCanon as FedCanon
    from fedloom.algorithms.composite.feddr import FedDR as FedDR
    from fedloom.algorithms.composite.feddualavg import FedDualAvg as FedDualAvg
    from fedloom.algorithms.composite.fedmid import FedMid as FedMid
    from fedloom.algorithms.minimax.codasca import CODASCA as CODASCA
    from fedloom.algorithms.minimax.fed_norm_sgda import FedNormSGDA as FedNormSGDA
    from fedloom.algorithms.minimax.fednest import FedNest as FedNest
    from fedloom.algorithms.minimax.fedsgda_m import FedSGDAM as FedSGDAM
    from fedloom.algorithms.minimax.fedsgda_plus import FedSGDAPlus as FedSGDAPlus
    from fedloom.algorithms.minimax.fedualex import FeDualEx as FeDualEx
    from fedloom.algorithms.minimax.fess_gda import FESSGDA as FESSGDA
    from fedloom.algorithms.minimax.ffmdr import FFMDR as FFMDR
    from fedloom.algorithms.minimax.ffmdr_consensus import FFMDRConsensus as FFMDRConsensus
    from fedloom.algorithms.minimax.inner import SGDA as SGDA
    from fedloom.algorithms.minimax.inner import Exact as Exact
    from fedloom.algorithms.minimax.local_sgda import LocalSGDA as LocalSGDA
    from fedloom.algorithms.minimax.local_sgda_plus import LocalSGDAPlus as LocalSGDAPlus
    from fedloom.algorithms.minimax.momentum_local_sgda import (
        MomentumLocalSGDA as MomentumLocalSGDA,
    )
    from fedloom.algorithms.minimax.optimistic_local_sgda import (
        OptimisticLocalSGDA as OptimisticLocalSGDA,
    )
    from fedloom.algorithms.minimax.saga import SAGA as SAGA
    from fedloom.algorithms.personal.apfl import APFL as APFL
    from fedloom.algorithms.personal.ditto import Ditto as Ditto
    from fedloom.algorithms.personal.fedbn import FedBN as FedBN
    from fedloom.algorithms.personal.fedper import FedPer as FedPer
    from fedloom.algorithms.personal.fedrep import FedRep as FedRep
    from fedloom.algorithms.personal.fine_tuning import FineTuning as FineTuning
    from fedloom.algorithms.personal.local_training import LocalTraining as LocalTraining
    from fedloom.algorithms.personal.mutual_learning import MutualLearning as MutualLearning
    from fedloom.algorithms.personal.per_fedavg import PerFedAvg as PerFedAvg
    from fedloom.algorithms.personal.pfedme import PFedMe as PFedMe
    from fedloom.algorithms.personal.quantisation import Quantisation as Quantisation
    from fedloom.algorithms.personal.quantised_training import (
        QuantisedTraining as QuantisedTraining,
    )
    from fedloom.algorithms.personal.quped import QuPeD as QuPeD
    from fedloom.algorithms.personal.qupel import QuPeL as QuPeL
    from fedloom.algorithms.robust.afl import AFL as AFL
    from fedloom.algorithms.robust.drfa import DRFA as DRFA
    from fedloom.algorithms.robust.drfa_ga import DRFAGA as DRFAGA
    from fedloom.algorithms.robust.drfa_prox import DRFAProx as DRFAProx
    from fedloom.algorithms.robust.q_fedavg import QFedAvg as QFedAvg
    from fedloom.algorithms.robust.q_fedsgd import QFedSGD as QFedSGD
    from fedloom.algorithms.robust.scaff_pd import ScaffPD as ScaffPD
    from fedloom.algorithms.robust.term import TERM as TERM
    from fedloom.algorithms.vertical.cvfl import CVFL as CVFL
    from fedloom.algorithms.vertical.ef_vfl import EFVFL as EFVFL
    from fedloom.algorithms.vertical.egvfl import EGVFL as EGVFL
    from fedloom.algorithms.vertical.egvfl_augmented import EGVFLAugmented as EGVFLAugmented
    from fedloom.algorithms.vertical.egvfl_compressed import EGVFLCompressed as EGVFLCompressed
    from fedloom.algorithms.vertical.egvfl_coordinate import EGVFLCoordinate as EGVFLCoordinate
    from fedloom.algorithms.vertical.egvfl_dual import EGVFLDual as EGVFLDual
    from fedloom.algorithms.vertical.egvfl_error_feedback import (
        EGVFLErrorFeedback as EGVFLErrorFeedback,
    )
    from fedloom.algorithms.vertical.egvfl_nonlinear import EGVFLNonlinear as EGVFLNonlinear
    from fedloom.algorithms.vertical.egvfl_partial import EGVFLPartial as EGVFLPartial
    from fedloom.algorithms.vertical.egvfl_proximal import EGVFLProximal as EGVFLProximal
    from fedloom.algorithms.vertical.egvfl_slacks import EGVFLSlacks as EGVFLSlacks
    from fedloom.algorithms.vertical.sharing_admm import SharingADMM as SharingADMM
    from fedloom.algorithms.vertical.split_training import SplitTraining as SplitTraining
    from fedloom.algorithms.vertical.vertical_agd import VerticalAGD as VerticalAGD
    from fedloom.algorithms.vertical.vertical_cg import VerticalCG as VerticalCG
    from fedloom.algorithms.vertical.vertical_gd import VerticalGD as VerticalGD
    from fedloom.algorithms.vertical.vertical_ogda import VerticalOGDA as VerticalOGDA
    from fedloom.algorithms.wrappers import Compressed as Compressed
    from fedloom.algorithms.wrappers import Poisoned as Poisoned
    from fedloom.algorithms.wrappers import Private as Private
    from fedloom.algorithms.wrappers import Robust as Robust
    from fedloom.algorithms.wrappers import Unreliable as Unreliable
else:
    __all__, __getattr__, __dir__ = names(
        __name__,
        {
            "averaging": (
                "FedAdagrad",
                "FedAdam",
                "FedAvg",
                "FedAvgM",
                "FedDyn",
                "FedNova",
                "FedProx",
                "FedYogi",
                "Scaffnew",
                "Scaffold",
            ),
            "composite": (
                "DecoupledProx",
                "FastFedDA",
                "FedADMM",
                "FedCanon",
                "FedDR",
                "FedDualAvg",
                "FedMid",
            ),
            "minimax": (
                "CODASCA",
                "FedNormSGDA",
                "FedNest",
                "FedSGDAM",
                "FedSGDAPlus",
                "FeDualEx",
                "FESSGDA",
                "FFMDR",
                "FFMDRConsensus",
                "LocalSGDA",
                "LocalSGDAPlus",
                "MomentumLocalSGDA",
                "OptimisticLocalSGDA",
            ),
            "minimax.inner": ("SGDA", "Exact"),
            "minimax.saga": ("SAGA",),
            "personal": (
                "APFL",
                "Ditto",
                "FedBN",
                "FedPer",
                "FedRep",
                "FineTuning",
                "LocalTraining",
                "MutualLearning",
                "PerFedAvg",
                "PFedMe",
                "QuantisedTraining",
                "QuPeD",
                "QuPeL",
            ),
            "personal.quantisation": ("Quantisation",),
            "robust": (
                "AFL",
                "DRFA",
                "DRFAGA",
                "DRFAProx",
                "QFedAvg",
                "QFedSGD",
                "ScaffPD",
                "TERM",
            ),
            "vertical": (
                "CVFL",
                "EFVFL",
                "EGVFL",
                "EGVFLAugmented",
                "EGVFLCompressed",
                "EGVFLCoordinate",
                "EGVFLDual",
                "EGVFLErrorFeedback",
                "EGVFLNonlinear",
                "EGVFLPartial",
                "EGVFLProximal",
                "EGVFLSlacks",
                "SharingADMM",
                "SplitTraining",
                "VerticalAGD",
                "VerticalCG",
                "VerticalGD",
                "VerticalOGDA",
            ),
            "wrappers": ("Compressed", "Poisoned", "Private", "Robust", "Unreliable"),
        },
    )
