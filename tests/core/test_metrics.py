"""Metrics of all scores and labels: scikit-learn's numbers, over all rows and at each client."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics as reference
from sklearn.calibration import calibration_curve

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE as METHODS
from fedloom.measuring import evaluation, joint_evaluation
from fedloom.metrics.catalogue import CATALOGUE
from fedloom.metrics.ready import READY, made_of, means_of, metric_of

CLASSIFICATION = (
    *("f1", "balanced_accuracy", "average_precision"),
    *("calibration_error", "brier", "log_loss"),
)
REGRESSION = ("rmse", "mae", "r2")
PROBLEMS = {
    "logit": fl.problems.Logistic(),
    "softmax": fl.problems.Multinomial(),
    "identity": fl.problems.LeastSquares(),
}
FEDAVG = fl.algorithms.FedAvg(lr=0.3)
PARTS = ("_worst", "_worst10", "_best10", "_std")


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def chances_of(scores):
    if scores.ndim == 1:
        return np.stack([1 / (1 + np.exp(scores)), 1 / (1 + np.exp(-scores))], -1)
    return softmax(scores)


def expected(name, scores, labels):
    """What scikit-learn says."""
    if name in REGRESSION:
        functions = {
            "rmse": reference.root_mean_squared_error,
            "mae": reference.mean_absolute_error,
            "r2": reference.r2_score,
        }
        return functions[name](labels, scores)
    chances = chances_of(scores)
    classes = chances.shape[1]
    decided, binary = chances.argmax(1), classes == 2
    if name == "f1":
        return reference.f1_score(labels, decided, average="binary" if binary else "macro")
    if name == "balanced_accuracy":
        return reference.balanced_accuracy_score(labels, decided)
    if name == "average_precision":
        return reference.average_precision_score(labels, chances[:, 1] if binary else chances)
    if name == "log_loss":
        return reference.log_loss(labels, chances, labels=range(classes))
    if name == "brier":
        return reference.brier_score_loss(
            labels, chances[:, 1] if binary else chances, labels=range(classes)
        )
    confidence = chances.max(1)
    bins = np.histogram(confidence, np.linspace(0, 1, 16))[0]
    right, mean = calibration_curve(decided == labels, confidence, n_bins=15)
    return (bins[bins > 0] / bins.sum()) @ np.abs(right - mean)


def rows_of(link, n, seed, ties=False):
    rng = np.random.default_rng(seed)
    classes = {"logit": 2, "softmax": 4}.get(link)
    scores = rng.normal(size=(n, classes) if link == "softmax" else n) * 2
    if ties:  # none at zero, where 0 decides
        scores = np.round(scores) + 0.25
    if classes is None:
        return scores, scores + rng.normal(size=n)
    labels = rng.permutation(np.arange(n) % classes)
    return scores, labels


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("link", PROBLEMS)
def test_numbers_are_those_of_scikit_learn(link, seed, ties):
    scores, labels = rows_of(link, 150, seed, ties)
    if ties and link == "softmax":  # of equal scores the first decides, there as here
        scores = scores + np.arange(4) * 1e-3
    for name in REGRESSION if link == "identity" else CLASSIFICATION:
        ours = metric_of(name, PROBLEMS[link]).function(scores, labels)
        assert ours == pytest.approx(expected(name, scores, labels), rel=1e-12), name


def test_two_columns_are_two_classes():
    scores, labels = rows_of("logit", 80, 1)
    two = np.stack([np.zeros_like(scores), scores], -1)
    for name in CLASSIFICATION:
        one = metric_of(name, PROBLEMS["logit"]).function(scores, labels)
        assert metric_of(name, PROBLEMS["softmax"]).function(two, labels) == pytest.approx(one)


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_only(label):
    scores, _ = rows_of("logit", 40, 2)
    labels = np.full(40, label)
    lacking = {"f1", "average_precision"} if label == 0 else set()
    for name in CLASSIFICATION:
        ours = metric_of(name, PROBLEMS["logit"]).function(scores, labels)
        if name in lacking:  # it is of the other class
            assert np.isnan(ours)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ours == pytest.approx(expected(name, scores, labels), rel=1e-12), name


def test_a_lacking_class_of_several():
    scores, labels = rows_of("softmax", 60, 3)
    scores, labels = scores[labels != 2], labels[labels != 2]
    of = {name: metric_of(name, PROBLEMS["softmax"]).function for name in CLASSIFICATION}
    assert np.isnan(of["average_precision"](scores, labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decisions are of a class that no label is of
        for name in set(CLASSIFICATION) - {"average_precision"}:
            assert of[name](scores, labels) == pytest.approx(expected(name, scores, labels))


def test_sure_and_wrong_is_kept_from_infinity_as_in_scikit_learn():
    scores, labels = np.array([90.0, -90.0, 1.0]), np.array([0, 1, 1])
    ours = metric_of("log_loss", PROBLEMS["logit"]).function(scores, labels)
    assert ours == pytest.approx(expected("log_loss", scores, labels), rel=1e-12) and ours > 20


def test_labels_that_are_all_one_explain_nothing():
    assert np.isnan(metric_of("r2", PROBLEMS["identity"]).function(np.arange(3.0), np.ones(3)))
    assert np.isnan(made_of("r2", {"squared_error": 1, "label": 3, "squared_label": 9}))


@pytest.mark.parametrize("link", PROBLEMS)
def test_metrics_made_of_means_are_the_same(link):
    names = [
        n for n, ready in READY.items() if ready.means and (n in REGRESSION) == (link == "identity")
    ]
    scores, labels = rows_of(link, 50, 4)
    means = means_of(names, PROBLEMS[link], scores, labels)
    for name in names:
        whole = metric_of(name, PROBLEMS[link]).function(scores, labels)
        assert made_of(name, means) == pytest.approx(whole, rel=1e-10)


def test_numbers_that_are_not_finite_give_nan():
    for name in CLASSIFICATION:
        assert np.isnan(
            metric_of(name, PROBLEMS["logit"]).function(np.array([np.nan, 1]), np.array([0, 1]))
        )


def clients_for(link, test=False):
    """Clients of unlike sizes, so that their rows are padded; the second may lack a class."""
    rng = np.random.default_rng(5)
    parts = []
    for i, n in enumerate((17, 5, 40)):
        x = rng.normal(i / 3, 1, (n, 3))
        y = x[:, 0] + rng.normal(size=n)
        if link != "identity":
            y = np.digitize(y, [0] if link == "logit" else [-0.7, 0, 0.7])
        parts.append((x, np.minimum(y, 0) if i == 1 and link == "logit" else y))
    return fl.data.from_arrays(parts, test=[(x[:4], y[:4]) for x, y in parts] if test else None)


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize("link", PROBLEMS)
def test_over_all_rows_and_at_each_client(link, test):
    names = REGRESSION if link == "identity" else CLASSIFICATION
    clients, problem = clients_for(link, test), PROBLEMS[link]
    result = fl.simulate(
        FEDAVG, problem, clients, rounds=5, metrics=("loss", *names), precision="float64"
    )
    rows = [
        (part.x[:4], part.y[:4]) if test else (part.x, part.y) for part in map(clients.of, range(3))
    ]
    scores = [(np.asarray(x) @ np.asarray(result.model), y) for x, y in rows]
    for name in names:
        function = metric_of(name, problem).function
        each = np.array([function(*own) for own in scores])
        whole = function(*(np.concatenate(part) for part in zip(*scores, strict=True)))
        np.testing.assert_allclose(result.client_metrics[name], each, rtol=1e-9)
        assert result.final[name] == pytest.approx(whole, rel=1e-9, nan_ok=True)
        known = each[~np.isnan(each)]
        if not len(known):  # no client has all classes
            assert name == "average_precision" and np.isnan(result.final[f"{name}_worst"])
            continue
        worst = known.min() if READY[name].larger_is_better else known.max()
        assert result.final[f"{name}_worst"] == pytest.approx(worst, rel=1e-9)
        assert result.final[f"{name}_std"] == pytest.approx(known.std(), rel=1e-9)
    if link == "logit" and not test:
        assert np.isnan(result.client_metrics["f1"]).tolist() == [False, True, False]


def test_other_columns_keep_their_bits():
    clients, problem = clients_for("logit"), PROBLEMS["logit"]
    alone = fl.simulate(FEDAVG, problem, clients, rounds=3, metrics=("accuracy", "loss", "auc"))
    beside = fl.simulate(
        FEDAVG, problem, clients, rounds=3, metrics=("accuracy", "loss", "auc", *CLASSIFICATION)
    )
    for ours, theirs in zip(alone.rows, beside.rows, strict=True):
        assert all(ours[name] == theirs[name] for name in ours if name != "seconds")


def test_other_models_of_the_hub_are_measured_too():
    method = fl.algorithms.DRFA(lr=0.5, weight_lr=0.1, local_steps=2)
    run = fl.simulate(method, PROBLEMS["logit"], clients_for("logit"), rounds=2, metrics=("f1",))
    assert {"average_f1", "average_f1_worst"} <= set(run.final)
    assert run.larger_is_better("average_f1") and not run.larger_is_better("average_f1_std")


@pytest.mark.parametrize(
    "problem,metric,complaint",
    [
        (PROBLEMS["logit"], "rmse", "is for regression, and Logistic classifies. Choose among f1,"),
        (PROBLEMS["identity"], "f1", "is for classification, and LeastSquares is a regression. "
         "Choose among rmse, mae, r2"),
        (fl.problems.AUC(), "brier", "needs probabilities, and the scores of AUC are none. "
         "Choose among f1, balanced_accuracy, average_precision,"),
        (fl.problems.AUC(), "log_loss", "needs probabilities"),
        (fl.problems.Bilinear(), "f1", "needs to know what scores mean, which Bilinear does not"),
        (fl.problems.Supervised(fl.models.MLP(), loss=lambda s, y: s[:, 0]), "f1",
         "needs to know what scores mean, which Supervised does not"),
        (fl.problems.Supervised(fl.models.MLP(), loss="squared"), "brier", "is a regression"),
        (fl.problems.Adversarial(penalty_strength=1.0), "mae", "Adversarial classifies"),
        (fl.problems.Vertical(), "log_loss", "Vertical is a regression"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_what_does(problem, metric, complaint):
    with pytest.raises(fl.FedloomError, match=complaint):
        evaluation.choose((metric,), problem, False)


def test_a_network_that_classifies():
    problem = fl.problems.Supervised(fl.models.MLP(hidden=(4,)))
    clients = clients_for("softmax")
    run = fl.simulate(FEDAVG, problem, clients, rounds=2, metrics=("log_loss", "loss", "f1"))
    sizes = clients.sizes
    assert run.client_metrics["log_loss"] == pytest.approx(run.client_metrics["loss"], rel=1e-5)
    assert run.final["log_loss"] == pytest.approx(
        sizes @ run.client_metrics["loss"] / sizes.sum(), rel=1e-5
    )


def test_a_network_with_numbers():
    problem = fl.problems.Supervised(fl.models.MLP(hidden=(4,)), loss="squared")
    run = fl.simulate(FEDAVG, problem, clients_for("identity"), rounds=2, metrics=("rmse", "loss"))
    assert run.client_metrics["rmse"] ** 2 / 2 == pytest.approx(
        run.client_metrics["loss"], rel=1e-5
    )


def test_an_own_model_that_is_no_longer_finite_is_not_left_out():
    """The third client's step is far too long for its rows; the hub and the others know nothing."""
    rows = np.random.default_rng(0).normal(size=(3, 9, 2)) * [[[1]], [[1]], [[100]]]
    parts = [(x, np.arange(9) % 2) for x in rows]
    result = fl.simulate(
        fl.algorithms.LocalTraining(lr=10.0, local_steps=50),
        fl.problems.Personal(fl.models.MLP((4,)), l2=0.1),
        fl.data.from_arrays(parts),
        rounds=2,
        batch_size=None,
        metrics=["accuracy", "loss", "log_loss"],
    )
    assert np.isnan(result.clients[2, "accuracy"]) and np.isnan(result.clients[2, "loss"])
    for name in ("accuracy", "accuracy_worst", "accuracy_rows", "loss", "loss_best10"):
        assert np.isnan(result.final[name])
    assert np.isnan(result.final["log_loss"]) and np.isnan(result.final["log_loss_worst"])


def test_own_networks_of_a_personal_problem():
    problem = fl.problems.Personal(
        fl.models.MLP(hidden=(3,)), own=(fl.models.MLP(hidden=(2,)), fl.models.MLP(hidden=(4,)))
    )
    run = fl.simulate(
        METHODS["quped"].example(), problem, clients_for("softmax"), rounds=2,
        metrics=("loss", "log_loss", "f1"),
    )  # fmt: skip
    assert run.client_metrics["log_loss"] == pytest.approx(run.client_metrics["loss"], rel=1e-5)
    assert {"f1", "f1_worst"} <= set(run.final)


def test_a_saddle_problem_decides_half_way_between_its_centres():
    clients, problem = clients_for("logit"), fl.problems.AUC()
    method = METHODS["ffmdr"].example()
    run = fl.simulate(method, problem, clients, rounds=8, metrics=("accuracy", "f1"))
    arrays, threshold = run.model, np.asarray(run.model["bias"]).mean()
    x, y = clients.train.x, clients.train.y
    decided = x.astype(np.float32) @ np.asarray(arrays["w"]) > threshold
    assert threshold != 0 and run.final["f1"] == pytest.approx(reference.f1_score(y, decided))


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_parties(loss):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 4))
    score = x.sum(1) + rng.normal(size=60)
    y = score if loss == "squared" else np.digitize(score, [0] if loss == "logistic" else [-1, 1])
    parties = fl.data.from_parties([x[:, :2], x[:, 2:]], y)
    names = REGRESSION if loss == "squared" else CLASSIFICATION
    problem = fl.problems.Vertical(loss=loss, l2=0.1)
    own = {"spread": fl.Metric(lambda s, y: float(np.ptp(y)), larger_is_better=True, of="scores")}
    method = METHODS["egvfl"].example()
    run = fl.simulate(method, problem, parties, rounds=5, metrics=names, precision="float64")
    shares = list(run.model.values())
    fitted = sum(part @ np.asarray(w) for part, w in zip((x[:, :2], x[:, 2:]), shares, strict=True))
    for name in names:
        assert run.final[name] == pytest.approx(expected(name, fitted, y), rel=1e-6), name
        assert run.larger_is_better(name) == READY[name].larger_is_better
    mine = fl.simulate(method, problem, parties, rounds=1, metrics=own)
    assert mine.final["spread"] == pytest.approx(np.ptp(y), rel=1e-6)
    assert joint_evaluation.choose(names, problem, False).pooled == names


def merit(scores, labels):
    """Gini's coefficient: 2 AUC - 1."""
    return 2 * reference.roc_auc_score(labels, scores) - 1 if len(set(labels)) > 1 else np.nan


GINI = fl.Metric(merit, larger_is_better=True, of="scores")


def test_a_metric_of_your_own():
    clients, problem = clients_for("logit"), PROBLEMS["logit"]
    run = fl.simulate(FEDAVG, problem, clients, rounds=4, metrics={"gini": GINI})
    known = fl.simulate(FEDAVG, problem, clients, rounds=4, metrics=("auc",))
    assert run.final["gini"] == pytest.approx(2 * known.final["auc"] - 1)
    assert run.larger_is_better("gini") and run.larger_is_better("gini_worst")
    assert np.isnan(run.client_metrics["gini"]).tolist() == [False, True, False]
    shadow = {"f1": fl.Metric(lambda s, y: -1.0, larger_is_better=False, of="scores")}
    run = fl.simulate(FEDAVG, problem, clients, rounds=1, metrics=shadow)
    assert run.final["f1"] == -1 and not run.larger_is_better("f1")


def test_a_metric_of_your_own_in_comparisons_and_sweeps(tmp_path):
    common = (PROBLEMS["logit"], clients_for("logit"))
    found = fl.compare(
        {"slow": fl.algorithms.FedAvg(lr=1e-6), "fast": FEDAVG}, *common, rounds=6,
        metrics={"gini": GINI}, out=tmp_path,
    )  # fmt: skip
    best = max(row["gini"] for row in found.table())
    table = {row["method"]: row for row in found.table(target=best)}
    assert table["fast"]["reached"] == "1 of 1" and table["fast"]["gini"] == best
    assert fl.load(tmp_path / "fast" / "seed-0").larger_is_better("gini")
    swept = fl.sweep(
        {"fedavg": FEDAVG}, *common, over={"lr": [1e-6, 0.3]}, metrics={"gini": GINI}, rounds=6
    )
    values = {row["lr"]: row["gini"] for row in swept.rows}
    assert swept.larger_is_better
    assert values[swept.best["fedavg"].setting["lr"]] == max(values.values())


def test_what_a_metric_is_of_must_be_known():
    with pytest.raises(fl.FedloomError, match="must be of one of rows, scores; got of='clients'"):
        fl.simulate(
            FEDAVG, PROBLEMS["logit"], clients_for("logit"),
            metrics={"x": fl.Metric(merit, larger_is_better=True, of="clients")},
        )  # fmt: skip
    with pytest.raises(fl.FedloomError, match="needs scores of rows, and Bilinear has none"):
        parts = [(np.zeros((4, 2, 2)), np.zeros((4, 4)))] * 2
        fl.simulate(
            METHODS["ffmdr"].example(), fl.problems.Bilinear(), fl.data.from_arrays(parts),
            metrics={"x": GINI},
        )  # fmt: skip


def test_every_name_is_in_the_list_and_goes_the_way_that_problems_say():
    problems = [*PROBLEMS.values(), fl.problems.AUC(), fl.problems.Vertical(loss="softmax")]
    problems += [fl.problems.Poisson(), fl.problems.MultiLabel(), fl.problems.Cox()]
    own = {name: metric for problem in problems for name, metric in problem.metrics().items()}
    names = {*own, *READY, *evaluation.OF_THE_WHOLE, *joint_evaluation.OF_THE_WHOLE}
    assert names == set(CATALOGUE)
    for name, metric in own.items():
        assert CATALOGUE[name].larger_is_better == metric.larger_is_better


def test_several_values_a_row_are_refused():
    rng = np.random.default_rng(1)
    clients = fl.data.from_arrays([(rng.normal(size=(6, 2)), rng.normal(size=(6, 2)))])
    network = fl.models.Pair(lambda key, spec: jnp.zeros((2, 2)), lambda arrays, x: x @ arrays)
    problem = fl.problems.Supervised(network, loss="squared")
    with pytest.raises(fl.FedloomError, match="need one value a row; the labels have the shape"):
        fl.simulate(FEDAVG, problem, clients, rounds=1, metrics=("mae",))


def test_a_text_in_the_place_of_a_list_is_refused():
    clients = fl.data.from_arrays([(np.eye(2), np.array([0, 1]))] * 2)
    with pytest.raises(fl.FedloomError, match=r"list of names.*Write metrics = \["):
        fl.simulate(fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), clients, metrics="f1")
