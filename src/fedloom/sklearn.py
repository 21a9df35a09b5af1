"""Estimators with the interface of scikit-learn, trained federatedly in the simulator.

    model = fl.sklearn.FederatedClassifier("scaffold", rounds=50).fit(X, y, sites=hospital)
    model.predict_proba(X_new)

`sites` names the owner of each row. Any method for smooth problems works, by its key or as an
object. Features are standardised by their mean and deviation over all rows, which real sites would
find from sums (`fedloom.preparation` has the exchanges).
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from fedloom.algorithms.catalogue import entry
from fedloom.data.clients import Clients
from fedloom.data.normalising import scales
from fedloom.errors import DataError, ParameterError
from fedloom.experiments import building
from fedloom.experiments.locations import Location
from fedloom.hints import closest
from fedloom.lazy import public
from fedloom.metrics import links
from fedloom.parameters import parameters_of
from fedloom.problems import LeastSquares, Logistic, Multinomial, Problem
from fedloom.protocol import Algorithm
from fedloom.rows import Rows
from fedloom.simulator.run import simulate

__all__ = ["FederatedClassifier", "FederatedRegressor"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)


_RATE = 0.1  # where a method is named by its key and no rate is given


_PARTS = ("algorithm", "problem")  # values with parameters of their own


def _within(name: str, value: Any) -> dict[str, Any]:
    """The parameters within a value, and within those, by names joined by two underscores."""
    found: dict[str, Any] = {}
    for field in parameters_of(type(value)) if hasattr(value, "__parametrised__") else ():
        inner = getattr(value, field.name)
        found |= {f"{name}__{field.name}": inner, **_within(f"{name}__{field.name}", inner)}
    return found


def _with(value: Any, path: str, new: Any) -> Any:
    """The value with another parameter within it."""
    name, _, rest = path.partition("__")
    changed = _with(getattr(value, name), rest, new) if rest else new
    return dataclasses.replace(value, **{name: changed})


class _Federated(BaseEstimator):
    """What both estimators share."""

    def __init__(
        self,
        algorithm: str | Algorithm = "fedavg",
        *,
        parameters: dict[str, Any] | None = None,
        problem: Problem | None = None,
        rounds: int = 100,
        batch_size: int | None = 32,
        standardise: bool = True,
        random_state: int | np.random.RandomState | None = 0,
    ):
        self.algorithm = algorithm
        self.parameters = parameters
        self.problem = problem
        self.rounds = rounds
        self.batch_size = batch_size
        self.standardise = standardise
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; if `deep`, also those of a method and a problem, as `algorithm__lr`."""
        given: dict[str, Any] = super().get_params(deep)
        for name in _PARTS if deep else ():
            given |= _within(name, given[name])
        return given

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a method or a problem make a new one, since it never changes."""
        inner = {key: value for key, value in params.items() if key.partition("__")[0] in _PARTS}
        whole = {key: inner.pop(key) for key in _PARTS if key in inner}
        super().set_params(**{k: v for k, v in params.items() if k not in inner} | whole)
        for key, value in inner.items():
            known = [name for name in self.get_params() if name.partition("__")[0] in _PARTS]
            if key not in known:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {key!r}. {closest(key, known)} A "
                    f"method has its own where it is an object, such as FedAvg(lr=0.1)."
                )
            name, _, path = key.partition("__")
            setattr(self, name, _with(getattr(self, name), path, value))
        return self

    def _train(
        self, x: np.ndarray, y: np.ndarray, sites: Any, labels: np.ndarray | None, problem: Problem
    ) -> None:
        """Divide the rows over their sites, and run the method."""
        if sites is None:
            sites = np.zeros(len(x), int)
        sites = np.asarray(sites)
        check_consistent_length(x, sites)
        nobodys = [row for row, site in enumerate(sites.tolist()) if site is None or site != site]
        if nobodys:
            raise DataError(
                f"{type(self).__name__}: sites must name the owner of every row; {len(nobodys)} of "
                f"{len(x)} have none, the first is row {nobodys[0]}. Name it, or drop these rows."
            )
        self.sites_, owners = np.unique(sites, return_inverse=True)
        order = np.argsort(owners, kind="stable")
        self.mean_, self.scale_ = np.zeros(x.shape[1]), np.ones(x.shape[1])
        if self.standardise:
            self.mean_, deviation = x.mean(axis=0), x.std(axis=0)
            self.scale_ = scales(self.mean_, deviation)
        clients = Clients(
            Rows(self._standard(x)[order], y[order]),
            np.bincount(owners),
            tuple(map(str, self.sites_.tolist())),
            labels,
        )
        self.problem_ = problem
        result = simulate(
            self._method(),
            problem,
            clients,
            rounds=self.rounds,
            batch_size=self.batch_size,
            seed=self._seed(),
            eval_every=self.rounds,
            progress=False,
        )
        if result.status == "interrupted":  # a search must end, and not go on with half a model
            raise KeyboardInterrupt
        self.result_, self.n_iter_ = result, self.rounds

    def _seed(self) -> int:
        """The seed; a generator of NumPy's draws one."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return 0 if self.random_state is None else self.random_state

    def _method(self) -> Algorithm:
        """The method as an object."""
        if isinstance(self.algorithm, Algorithm):
            return self.algorithm
        cls = entry(self.algorithm).cls
        chosen = dict(self.parameters or {})
        if any(field.name == "lr" for field in parameters_of(cls)):
            chosen.setdefault("lr", _RATE)
        return building.construct(cls, chosen, Location(type(self).__name__, "", ("parameters",)))

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean_) / self.scale_

    def _scores(self, X: Any) -> np.ndarray:
        """What the hub's model says of each row."""
        check_is_fitted(self)
        x = self._standard(validate_data(self, X, reset=False, dtype=np.float64))
        # In double precision a row's score does not depend on the rows around it.
        with jax.enable_x64(True):
            model = jax.tree.map(lambda array: array.astype(np.float64), self.result_.model)
            return np.asarray(self.problem_.predict(model, x))


class FederatedClassifier(ClassifierMixin, _Federated):
    """A classifier trained over sites by any method of the catalogue.

    Args:
        algorithm: A key of the catalogue, or a method such as `fl.algorithms.Scaffold(lr=0.1)`.
        parameters: The method's parameters, where it is named by its key; `lr` is 0.1 by default.
        problem: What is optimised; by default logistic regression with an intercept, multinomial
            for more than two classes. The scores of any problem are taken as logits.
        rounds: How many rounds.
        batch_size: Rows in a stochastic gradient; None: full gradients.
        standardise: Whether features are standardised first.
        random_state: The seed, or a NumPy RandomState that draws it; None: 0.

    After `fit`: `classes_`, `sites_`, `n_iter_`, and `result_`, the `fl.Result` with the history
    and each site's metrics.
    """

    def fit(self, X: Any, y: Any, sites: Any = None) -> Self:
        """Train; `sites` names the owner of each row, and None is one owner for all."""
        x, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"FederatedClassifier needs two classes or more; y has one class, "
                f"{self.classes_[0]!r}. Check the labels."
            )
        kind = Logistic if len(self.classes_) == 2 else Multinomial
        self._train(x, places, sites, self.classes_, self.problem or kind(intercept=True))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """One score for two classes, else one for each class."""
        scores = self._scores(X)
        if scores.ndim == 2 and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class."""
        scores = self.decision_function(X)
        return links.probabilities(scores, "logit" if scores.ndim == 1 else "softmax")

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]


class FederatedRegressor(RegressorMixin, _Federated):
    """A regression trained over sites by any method of the catalogue.

    Arguments are those of `FederatedClassifier`; the default problem is least squares with an
    intercept.
    """

    def fit(self, X: Any, y: Any, sites: Any = None) -> Self:
        """Train; `sites` names the owner of each row, and None is one owner for all."""
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        problem = self.problem or LeastSquares(intercept=True)
        self._train(x, np.asarray(y, np.float32), sites, None, problem)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The fitted values."""
        scores = self._scores(X)
        return scores[:, 0] if scores.ndim == 2 else scores
