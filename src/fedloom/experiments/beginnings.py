"""First settings files: what to run on which data, with a comment on every line that needs one."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.algorithms.catalogue import CATALOGUE, entry
from fedloom.data.parties import Parties
from fedloom.errors import ParameterError
from fedloom.experiments import samples, toml
from fedloom.experiments.registries import DATASETS, PROBLEMS
from fedloom.hints import closest
from fedloom.parameters import parameters_of
from fedloom.preparation import PartyFiles, SiteFiles

# For each family the methods of a first comparison: what is usual, then what the family has.
COMPARED = {
    "averaging": ("fedavg", "fedprox", "scaffold"),
    "composite": ("fedmid", "feddualavg", "decoupled_prox"),
    "minimax": ("local_sgda", "codasca", "ffmdr"),
    "robust": ("fedavg", "q_fedavg", "drfa"),
    "personal": ("local_training", "pfedme", "quped"),
    "vertical": ("vertical_gd", "egvfl"),
}
_TWO_CLASSES = (
    "a9a w8a ijcnn1 phishing mushrooms gisette covtype adult breast_cancer synthetic heart"
)
_WITH_CLIENTS = ("heart",)  # which come divided
_NUMBERS = ("diabetes",)
_CAREFUL = 0.1  # a step size that seldom diverges on data of which nothing is known
_DEMANDING = ("personal", "minimax")  # families with problems of their own
_OF_NUMBERS = ("egvfl_dual", "vertical_cg")  # methods for the squared loss alone
_HIDDEN = ("regularise", "strict_listing")  # what a beginner need not see


class Rows(NamedTuple):
    """Which data, and what is to be predicted."""

    tables: dict[str, Any]  # [data], and [partition] where they are not divided yet
    classes: int | None  # None: a number is predicted; many: more than two
    vertical: bool = False  # whether parties hold columns of the same people
    said: str = ""  # what they are, in words


def of_name(name: str, family: str, clients: int = 10) -> Rows:
    """A dataset of the catalogue, divided as suits a family."""
    if name not in DATASETS:
        raise ParameterError(
            f"new: --data must be from `fedloom list datasets`; got {name!r}. "
            f"{closest(name, DATASETS, where='fedloom list datasets')}"
        )
    classes = 2 if name in _TWO_CLASSES.split() else None if name in _NUMBERS else 10
    data: dict[str, Any] = {"name": name}
    if name == "synthetic":
        made = {"alpha": 1.0, "beta": 1.0, "clients": clients}
        return Rows({"data": data | made}, classes, said="made data")
    if family == "vertical":
        division: dict[str, Any] = {"scheme": "features", "parties": 3, "standardise": True}
    elif name in _WITH_CLIENTS:
        division = {"scheme": "client"}
    elif classes is None:
        division = {"scheme": "iid", "clients": clients}
    else:
        division = {"scheme": "dirichlet", "clients": clients, "alpha": 0.5}
    division |= {"test_fraction": 0.2}
    return Rows({"data": data, "partition": division}, classes, family == "vertical", name)


def of_files(pattern: str, label: str, id: str | None = None) -> Rows:
    """Files of sites, or with `id` of parties; they are read to see what the label is."""
    if id is None:
        data: dict[str, Any] = {"sites": pattern, "label": label, "test_fraction": 0.2}
        clients: Any = SiteFiles(**data).clients()
    else:
        data = {"parties": pattern, "id": id, "label": label, "test_fraction": 0.2}
        clients = PartyFiles(**data).load()
    words = clients.classes if isinstance(clients, Parties) else clients.labels
    classes = words if isinstance(words, int) or words is None else len(words)
    return Rows({"data": data}, classes or None, id is not None, pattern)


def problem_for(family: str, rows: Rows, methods: Sequence[str] = ()) -> dict[str, Any]:
    """A problem of a family for these labels, and for these methods of it."""
    if family in ("minimax", "personal") and rows.classes is None:
        raise ParameterError(
            f"new: the family {family} predicts classes, and the label holds numbers. "
            f"Take --family averaging or composite."
        )
    if family == "vertical" and rows.tables["data"].get("name") == "synthetic":
        raise ParameterError(
            "new: synthetic data are made client by client, and the family vertical divides "
            "columns. Take --data breast_cancer, or another --family."
        )
    if (family == "vertical") != rows.vertical:
        raise ParameterError(
            "new: the family vertical is for parties that hold columns of the same people. Give "
            "--parties and --id, or --data NAME; or take another --family."
        )
    for key in methods:
        if key in _OF_NUMBERS and rows.classes is not None:
            raise ParameterError(
                f"new: {CATALOGUE[key].name} needs the squared loss, and so a label of numbers; "
                f"that of {rows.said} has classes. Take --data diabetes, or another --method."
            )
    if family == "minimax" and rows.classes == 2:
        return {"kind": "auc"}
    if family == "minimax":
        linear = {"kind": "mlp", "hidden": []}
        return {"kind": "adversarial", "penalty_strength": 10.0, "model": linear}
    if family == "personal":
        return {"kind": "personal", "model": {"kind": "mlp", "hidden": [32, 16]}}
    if family == "vertical":
        loss = {None: "squared", 2: "logistic"}.get(rows.classes, "softmax")
        posed: dict[str, Any] = {"kind": "vertical", "loss": loss, "l2": 1.0}
        split = [entry(key).cls.takes_fusion for key in methods]
        if any(split):  # whose steps are for a mean over rows
            posed |= {"mean": True, "l2": 1e-3}
        if split and all(split):
            posed |= {name: samples.SPLIT[name] for name in ("network", "embedding", "fusion")}
        return posed
    kind = {None: "least_squares", 2: "logistic"}.get(rows.classes, "multinomial")
    found: dict[str, Any] = {"kind": kind, "intercept": True, "l2": 1e-4}
    if family == "composite":
        found["regulariser"] = {"kind": "l1", "strength": 1e-3}
    return found


def family_of(methods: Sequence[str]) -> str:
    """The family whose problem methods are compared on: what one of them needs, all get."""
    families = [entry(key).family for key in methods]
    return next((family for family in _DEMANDING if family in families), families[-1])


def settings_file(verb: str, rows: Rows, methods: Sequence[str], name: str) -> str:
    """The text of a settings file for `fedloom run`, `compare` or `sweep`."""
    family = family_of(methods)
    problem = problem_for(family, rows, methods)
    run = {**samples.FAMILIES[family]["run"], "eval_every": 10, "seed": 0}
    several = len(methods) > 1 or verb == "sweep"
    titles = ", ".join(CATALOGUE[key].name for key in methods)
    parts = [
        f"# {titles} on {rows.said}.\n# `fedloom {verb} {name}` runs it; --set run.rounds=20 "
        f"changes a setting.\n# `fedloom list` and `fedloom explain KEY` say what else there is.",
        _table("data", rows.tables["data"], ["the data; `fedloom explain data` lists all forms"]),
    ]
    if "partition" in rows.tables:
        about = ["who holds which rows; `fedloom list partitions`"]
        parts.append(_table("partition", rows.tables["partition"], about))
    about = [samples_about(problem["kind"]), *_why(problem, methods)]
    parts.append(_table("problem", problem, about))
    parts += [_method(key, several) for key in methods]
    parts.append(_table("run", run, ["the number of rounds, the rows in a gradient, ..."]))
    if verb != "run":
        drawn = run.get("batch_size") != "full"
        said = "tables show the mean and the spread" if drawn else "here nothing is drawn"
        seeds = 3 if drawn else 1
        parts.append(f"# Every method runs once for each seed; {said}.\n[compare]\nseeds = {seeds}")
        if verb == "compare" and drawn:
            parts[-1] += f"\n# redivide = true  # {_REDIVIDE}"
    if verb == "sweep":
        field = next(f for f in ("lr", "step", "beta", "rho") if f in _fields(methods[0]))
        judged = "# Values to try, judged on held-out training rows; the best is trained again."
        parts.append(f"{judged}\n[sweep.over]\n{field} = [0.01, 0.1, 1.0]")
    return "\n\n".join(parts) + "\n"


def _why(problem: dict[str, Any], methods: Sequence[str]) -> list[str]:
    """Why methods that could do with less have this problem, which one of them needs."""
    needing = [CATALOGUE[key].name for key in methods if entry(key).family == "personal"]
    if problem["kind"] != "personal" or len(needing) == len(methods):
        return []
    return [
        f"each client has a network of its own for {' and '.join(needing)}; for a fair comparison "
        "all methods have this problem and this network",
        'for linear models, whose coefficients can be read: model = { kind = "mlp", hidden = [] }',
    ]


def samples_about(kind: str) -> str:
    """What a problem is, as a comment."""
    first = (PROBLEMS[kind].__doc__ or "").strip().splitlines()[0].rstrip(".")
    return f"what is optimised: {first[0].lower() + first[1:]}"


def _fields(key: str) -> set[str]:
    return {parameter.name for parameter in parameters_of(CATALOGUE[key].cls)}


def _method(key: str, several: bool) -> str:
    """A method with its first values, and what else it takes in comments."""
    chosen = CATALOGUE[key]
    given = chosen.beginning()
    if "lr" in given:
        given = given | {"lr": min(given["lr"], _CAREFUL)}
    header = "[[algorithm]]" if several else "[algorithm]"
    lines = [f"# {chosen.name}, {chosen.paper}: `fedloom explain {key}`", header, f'key = "{key}"']
    for parameter in parameters_of(chosen.cls):
        if parameter.name in given:
            shown = f"{parameter.name} = {toml.value(given[parameter.name])}"
            lines.append(f"{shown}  # {parameter.doc}")
        elif parameter.name not in _HIDDEN and isinstance(parameter.default, int | float | str):
            lines.append(f"# {parameter.name} = {toml.value(parameter.default)}  # {parameter.doc}")
    return "\n".join(lines)


def _table(name: str, table: dict[str, Any], about: Iterable[str]) -> str:
    comments = [f"# {line}" for text in about for line in textwrap.wrap(text, 98)]
    return "\n".join([*comments, f"[{name}]", *toml.lines(table)])


def class_name(file: Path) -> str:
    """The class of a file: my_method.py has MyMethod."""
    return "".join(part.capitalize() for part in file.stem.replace("-", "_").split("_")) or "Mine"


def method_file(file: Path) -> str:
    """A method of one's own that runs: federated averaging, to be changed."""
    return _METHOD.replace("MyMethod", class_name(file)).replace("my_method.py", file.name)


_REDIVIDE = "its own test rows for each seed, so that the spread covers that chance too"
_METHOD = '''"""MyMethod: say here what it does.

    hub         send the model w to a cohort S
    client i    w_i = w;  K times:  w_i <- w_i - lr g_i(w_i)
    hub         w <- w + (n/m) sum_S a_i (w_i - w)

It is federated averaging, for you to change. Try it:

    fedloom check my_method.py:MyMethod      tests it against the laws that all methods keep
    fedloom explain my_method.py:MyMethod    shows its parameters, its messages and a settings file
"""

from typing import Any, NamedTuple

import fedloom as fl
from fedloom.protocol import Algorithm, algorithm, ask, at_least, param, positive


class Hub(NamedTuple):
    """What the hub keeps from round to round."""

    model: Any


@algorithm
class MyMethod(Algorithm):
    """Local steps at a cohort, then the mean of the changes."""

    lr: float = param(positive, "step size of the local steps")
    local_steps: int = param(at_least(1), "local steps a round", default=10)
    cohort: int | None = fl.cohorts.cohort_param()

    def init_hub(self, fed, key, /):
        """The state of the hub before the first round."""
        return Hub(fed.init_model(key))

    def round(self, hub, fed, key, /):
        """Runs at the hub; `yield ask(...)` is the only way to talk to clients."""
        cohort = fl.cohorts.uniform(key, fed.n, self.cohort)
        replies = yield ask(self.train, hub.model, to=cohort)
        change = replies.estimate(fed.weights)  # stands for the mean over everyone
        return Hub(hub.model + change), ()  # the next state, and diagnostics

    def train(self, client, model, f, key, /):
        """Runs at each client that is asked; returns its next state, and its reply."""

        def step(w, key):
            return w - self.lr * f.grad(w, key)

        return client, fl.local.repeat(step, model, key, self.local_steps) - model
'''
