"""Personal: every client its own model, which may be small and quantised."""

from fedloom.algorithms.entry import MethodEntry
from fedloom.algorithms.personal.apfl import APFL
from fedloom.algorithms.personal.ditto import Ditto
from fedloom.algorithms.personal.fedbn import FedBN
from fedloom.algorithms.personal.fedper import FedPer
from fedloom.algorithms.personal.fedrep import FedRep
from fedloom.algorithms.personal.fine_tuning import FineTuning
from fedloom.algorithms.personal.local_training import LocalTraining
from fedloom.algorithms.personal.mutual_learning import MutualLearning
from fedloom.algorithms.personal.per_fedavg import PerFedAvg
from fedloom.algorithms.personal.pfedme import PFedMe
from fedloom.algorithms.personal.quantisation import Quantisation
from fedloom.algorithms.personal.quantised_training import QuantisedTraining
from fedloom.algorithms.personal.quped import QuPeD
from fedloom.algorithms.personal.qupel import QuPeL

_QUPED = "Ozkara, Singh, Data, Diggavi, NeurIPS 2021"
_BITS = Quantisation(pull=0.05, centre_lr=0.01, freeze_after=4)
_COMMON = {"lr": 0.1, "local_steps": 3, "cohort": 3}
_FIRST = {"lr": 0.1, "local_steps": 10}
_TWO_BITS = {"quantise": {"bits": 2, "pull": 5e-6, "freeze_after": 43}}

ENTRIES = (
    MethodEntry(
        "quped",
        QuPeD,
        "personal",
        f"{_QUPED}, Algorithm 2",
        "min_{x_i,c_i,w}  mean_i (1-lp)(f_i(x_i) + f_i(Q_{c_i}(x_i))) + lambda R(x_i,c_i) "
        "+ lp (KD_i(x_i,w) + KD_i(Q_{c_i}(x_i),w))",
        _COMMON | {"quantise": _BITS, "decay": 0.9},
        "personal",
        first=_FIRST | {"common_lr": 0.1} | _TWO_BITS,
    ),
    MethodEntry(
        "qupel",
        QuPeL,
        "personal",
        f"{_QUPED}, Algorithm 3",
        "min_{x_i,c_i,w}  mean_i f_i(x_i) + f_i(Q_{c_i}(x_i)) + lambda R(x_i,c_i) "
        "+ (lp/2)(|x_i - w|^2 + |Q_{c_i}(x_i) - w|^2)",
        _COMMON | {"quantise": _BITS},
        "personal-alike",
        first=_FIRST | _TWO_BITS,
    ),
    MethodEntry(
        "quantised_training",
        QuantisedTraining,
        "personal",
        f"{_QUPED}, Algorithm 1",
        "min_{x_i,c_i}  f_i(x_i) + f_i(Q_{c_i}(x_i)) + lambda R(x_i,c_i), at each client alone",
        _COMMON | {"quantise": _BITS, "optimiser": "adam"},
        "personal-alike",
        first=_FIRST | _TWO_BITS,
    ),
    MethodEntry(
        "local_training",
        LocalTraining,
        "personal",
        "stochastic gradient descent",
        "min_{x_i}  f_i(x_i), at each client alone",
        _COMMON | {"decay": 0.9},
        "personal-alike",
        first=_FIRST,
    ),
    MethodEntry(
        "mutual_learning",
        MutualLearning,
        "personal",
        "Shen et al., 2020",
        "x_i and w teach each other by their outputs",
        _COMMON,
        "personal-alike",
        first=_FIRST,
    ),
    MethodEntry(
        "pfedme",
        PFedMe,
        "personal",
        "Dinh, Tran, Nguyen, NeurIPS 2020",
        "min_w  sum_i a_i min_x f_i(x) + (penalty/2) |x - w|^2",
        _COMMON | {"penalty": 2.0, "outer_lr": 0.1, "inner_steps": 2},
        first=_FIRST | {"lr": 0.05, "outer_lr": 0.05},
    ),
    MethodEntry(
        "per_fedavg",
        PerFedAvg,
        "personal",
        "Fallah, Mokhtari, Ozdaglar, NeurIPS 2020",
        "min_w  sum_i a_i f_i(w - personal_lr f_i'(w))",
        _COMMON | {"personal_lr": 0.05},
        first=_FIRST,
    ),
    MethodEntry(
        "fine_tuning",
        FineTuning,
        "personal",
        "FedAvg; Yu, Bagdasaryan, Shmatikov, 2020",
        "min_w  sum_i a_i f_i(w), then at each client steps on f_i from there",
        _COMMON | {"personal_lr": 0.05, "personal_steps": 2},
        first=_FIRST | {"personal_lr": 0.05},
    ),
    MethodEntry(
        "ditto",
        Ditto,
        "personal",
        "Li, Hu, Beirami, Smith, ICML 2021",
        "min_{v_i}  f_i(v_i) + (penalty/2) |v_i - w|^2,  with w of  min_w  sum_i a_i f_i(w)",
        _COMMON | {"personal_lr": 0.05, "penalty": 0.5, "personal_steps": 2},
        first=_FIRST | {"personal_lr": 0.1},
    ),
    MethodEntry(
        "apfl",
        APFL,
        "personal",
        "Deng, Kamani, Mahdavi, 2020",
        "min_{v_i,alpha_i}  f_i(alpha_i v_i + (1 - alpha_i) w),  w of  min_w  sum_i a_i f_i(w)",
        _COMMON | {"personal_lr": 0.05, "alpha": 0.4, "alpha_lr": 0.2},
        first=_FIRST,
    ),
    MethodEntry(
        "fedper",
        FedPer,
        "personal",
        "Arivazhagan et al., 2019",
        "min_{b,h_i}  sum_i a_i f_i(b, h_i): a shared body, own heads",
        _COMMON | {"own": "bias"},
        "personal-alike",
        first=_FIRST,
    ),
    MethodEntry(
        "fedrep",
        FedRep,
        "personal",
        "Collins, Hassani, Mokhtari, Shakkottai, ICML 2021",
        "min_b  sum_i a_i min_{h_i} f_i(b, h_i): a shared body, own heads",
        _COMMON | {"own": "bias", "head_steps": 2, "head_lr": 0.05},
        "personal-alike",
        first=_FIRST,
    ),
    MethodEntry(
        "fedbn",
        FedBN,
        "personal",
        "Li, Jiang, Zhang, Kamp, Dou, ICLR 2021",
        "min_{w,n_i}  sum_i a_i f_i(w, n_i): shared layers, own norms",
        _COMMON | {"own": "bias"},
        "personal-alike",
        # The network of the family's example has no norms; biases are the nearest to them.
        first=_FIRST | {"own": "bias"},
    ),
)
