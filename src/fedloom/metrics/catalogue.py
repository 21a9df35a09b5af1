"""The catalogue of metrics by name: whether larger is better, what they are, who learns what."""

from collections.abc import Mapping
from typing import NamedTuple

from fedloom.metrics.links import PROBABILITIES, VALUES
from fedloom.metrics.ready import READY
from fedloom.problems.base import Problem
from fedloom.problems.linear import Logistic
from fedloom.problems.multi_label import MultiLabel
from fedloom.problems.poisson import Poisson

_LOGISTIC = Logistic()


class MetricEntry(NamedTuple):
    """A metric."""

    key: str
    larger_is_better: bool
    problems: str  # for which it is
    about: str
    formula: str
    columns: str
    network: str  # who learns what when it is taken over a network


_MEAN_COLUMNS = (
    "{0}, the mean over clients; {0}_rows, over the rows of all clients; {0}_worst, _worst10, "
    "_best10 and _std over clients. In a vertical run {0} alone, over all rows"
)
_POOLED_COLUMNS = (
    "{0}, over the rows of all clients; {0}_worst, _worst10, _best10 and _std over the same metric "
    "at each client, without the clients where it is nan"
)
_VERTICAL = (
    "In a vertical run the label party adds up the parties' parts of the scores, as for the loss."
)
_MEANS_AND_ROWS = (
    "Each site takes {} over its own rows. The server learns every site's, with the digits and the "
    "noise of its policy, and the number of its rows; under secure aggregation those of all sites "
    "together alone. " + _VERTICAL
)
_SCORES = (
    "The server learns the scores of all rows of each class, sorted, of sites whose policy has "
    "scores = true; others refuse. With secure aggregation it is refused. " + _VERTICAL
)
_NOWHERE = "It needs a known optimum, which a network has not: it is refused there."
_TOLD_MEANS = {
    "brier": "the mean",
    "log_loss": "the mean",
    "rmse": "the mean of squares",
    "mae": "the mean",
    "r2": "the means of the squared error, of the label and of its square",
}

_SAID: Mapping[str, tuple[str, str]] = {
    "auc": (
        "area under the ROC curve; nan with one class",
        "P(s of a positive row > s of a negative one), ties counting half",
    ),
    "f1": (
        "F1 score: of the second class of two, or the mean over several classes (macro); nan "
        "without a row of that second class",
        "2 TP / (2 TP + FP + FN)",
    ),
    "balanced_accuracy": (
        "mean over the classes of the share of their rows that is found",
        "mean_c  TP_c / (TP_c + FN_c), over the classes c that there are",
    ),
    "average_precision": (
        "area under precision and recall: of the second class of two, or the mean over several "
        "classes (macro); nan without a row of such a class",
        "sum_k (R_k - R_(k-1)) P_k, over the thresholds k from the highest score down",
    ),
    "calibration_error": (
        "expected calibration error: how far confidence is from accuracy, in 15 bins",
        "sum_b n_b / n |mean confidence in b - accuracy in b|, b = (0, 1/15], ..., (14/15, 1]",
    ),
    "brier": (
        "Brier score: squared error of the probabilities",
        "mean (p - y)^2 for two classes, y = 0 or 1; mean sum_c (p_c - [y = c])^2 for several",
    ),
    "log_loss": (
        "minus the logarithm of the label's probability",
        "mean -log p(y), with p kept within [2e-16, 1 - 2e-16]",
    ),
    "rmse": ("root of the mean squared error", "sqrt(mean (s - y)^2)"),
    "mae": ("mean absolute error", "mean |s - y|"),
    "r2": (
        "share of the labels' variance that is explained; nan where labels are all one",
        "1 - sum (s - y)^2 / sum (y - mean y)^2",
    ),
}


def _ready(key: str) -> MetricEntry:
    ready = READY[key]
    problems = {VALUES: "regression", PROBABILITIES: "classification with probabilities"}
    fits = "two classes" if key == "auc" else problems.get(ready.takes, "classification")
    return MetricEntry(
        key,
        ready.larger_is_better,
        fits,
        *_SAID[key],
        _POOLED_COLUMNS.format(key),
        _MEANS_AND_ROWS.format(_TOLD_MEANS[key]) if ready.means else _SCORES,
    )


def _of_rows(
    key: str, problems: str, about: str, formula: str, problem: Problem = _LOGISTIC
) -> MetricEntry:
    larger = problem.metrics()[key].larger_is_better  # problems say it themselves
    columns, network = _MEAN_COLUMNS.format(key), _MEANS_AND_ROWS.format("the mean")
    return MetricEntry(key, larger, problems, about, formula, columns, network)


_ENTRIES = (
    _of_rows("accuracy", "classification", "share of rows whose class is found", "mean [s says y]"),
    _of_rows("loss", "any but saddle problems and cox", "the problem's loss", "mean loss(s, y)"),
    _of_rows(
        *("deviance", "poisson", "twice the log-likelihood that the model lacks"),
        *("mean 2 (y log(y / m) - y + m)", Poisson()),
    ),
    _of_rows(
        *("exact", "multi_label", "share of rows that are right in all their labels"),
        *("mean [s_j says y_j for all j]", MultiLabel()),
    ),
    MetricEntry(
        *("concordance", True, "cox"),
        "Harrell's C, over the rows of all clients: of the pairs of which it is known who had the "
        "event first, the share in which that one has the larger score",
        "P(s_i > s_j | i has the event; t_i < t_j, or t_i = t_j, j censored), ties of s count half",
        _POOLED_COLUMNS.format("concordance"),
        "Labels that are pairs are not known over a network.",
    ),
    *(_ready(key) for key in READY),
    MetricEntry(
        *("objective", False, "any"),
        "what is minimised, on training rows; in a saddle problem at the best dual",
        "sum_i a_i f_i(w) + g(w)",
        "objective",
        "Each site takes the value of its own function, which the server learns; under secure "
        "aggregation the weighted mean alone. In a vertical run each party tells what its share "
        "adds.",
    ),
    MetricEntry(
        *("sparsity", True, "any", "share of zeros in the model", "mean [w_j = 0]", "sparsity"),
        "The server has the model already. In a vertical run each party tells its number of zeros.",
    ),
    MetricEntry(
        *("residual", False, "vertical", "distance of the slack from the scores", "|Ax - z|"),
        *("residual", _VERTICAL),
    ),
    MetricEntry(
        *("gap", False, "any, with a known optimum", "how far the objective is from its least"),
        *("F(w) - F(w*)", "gap", _NOWHERE),
    ),
    MetricEntry(
        *("relative_gap", False, "any, with a known optimum"),
        *("the gap, relative to that of the zero model", "(F(w) - F(w*)) / (F(0) - F(w*))"),
        *("relative_gap", _NOWHERE),
    ),
    MetricEntry(
        *("distance", False, "any, with a known optimum", "distance of the model to the optimum"),
        *("|w - w*|", "distance", _NOWHERE),
    ),
    MetricEntry(
        *("optimality", False, "any, with a known optimum"),
        *("the distance, relative to the size of the optimum", "|w - w*| / |w*|"),
        *("optimality", _NOWHERE),
    ),
)
CATALOGUE: Mapping[str, MetricEntry] = {entry.key: entry for entry in _ENTRIES}
