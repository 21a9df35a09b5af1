"""Samples: how each thing is written in a settings file, with a complete file around it.

`fedloom list` and `fedloom explain` show the lines, the pages of the methods show the files, and
`fedloom new` begins with them. The data are small and come with fedloom, unless a thing needs other
data.
"""

import copy
import dataclasses
from typing import Any, NamedTuple

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.data.entries import DatasetEntry
from fedloom.data.schemes import ByFeatures
from fedloom.experiments import building, registries, toml
from fedloom.experiments.registry import Registry
from fedloom.protocol import Algorithm

Tables = dict[str, Any]

_DIGITS = {
    "data": {"name": "digits"},
    "partition": {"scheme": "label", "clients": 10, "classes_each": 2, "test_fraction": 0.2},
    "problem": {"kind": "multinomial", "intercept": True, "l2": 1e-4},
}
_RIDGE = {"problem": {"kind": "vertical", "loss": "squared", "l2": 1.0}}
_MADE = {"data": {"name": "synthetic", "alpha": 1.0, "beta": 1.0, "clients": 20, "samples": 300}}
_COLUMNS = {
    "data": {"name": "breast_cancer"},
    "partition": {"scheme": "features", "parties": 3, "standardise": True, "test_fraction": 0.2},
}
# For each family data, a problem and the length of a run on which its methods show what they do.
FAMILIES: dict[str, Tables] = {
    "averaging": {**_DIGITS, "run": {"rounds": 100, "batch_size": 16}},
    "composite": {
        **_MADE,
        "problem": {
            "kind": "logistic",
            "l2": 0.01,
            "regulariser": {"kind": "l1", "strength": 1e-3},
        },
        "run": {"rounds": 100, "batch_size": "full"},
    },
    "minimax": {**_MADE, "problem": {"kind": "auc"}, "run": {"rounds": 100, "batch_size": 20}},
    "robust": {
        "data": {"name": "digits"},
        "partition": {"scheme": "one_class", "clients": 10, "test_fraction": 0.3},
        "problem": {"kind": "multinomial", "intercept": True},
        "run": {"rounds": 150, "batch_size": 20},
    },
    "personal": {
        **_DIGITS,
        "partition": {"scheme": "label", "clients": 10, "classes_each": 3, "test_fraction": 0.25},
        "problem": {"kind": "personal", "model": {"kind": "mlp", "hidden": [32, 16]}},
        "run": {"rounds": 50, "batch_size": 25},
    },
    "vertical": {
        **_COLUMNS,
        "problem": {"kind": "vertical", "loss": "logistic", "l2": 1.0},
        "run": {"rounds": 200},
    },
}
_START = {  # a method for whoever chose only a family
    "averaging": "scaffold",
    "composite": "decoupled_prox",
    "minimax": "local_sgda",
    "robust": "drfa",
    "personal": "quped",
    "vertical": "egvfl",
}
_OF_KIND = {"saddle": "minimax", "personal": "personal", "vertical": "vertical"}
# Tables in the place of the family's, where a thing needs something else around it.
_MNIST, _CIFAR10 = {"data": {"name": "mnist"}}, {"data": {"name": "cifar10"}}
SPLIT = {  # networks at the parties, and over their embeddings
    "network": {"kind": "mlp", "hidden": [32]},
    "embedding": 8,
    "fusion": {"kind": "mlp", "hidden": [32]},
}
_HALVES = {  # of a row's columns
    "data": {"name": "digits"},
    "partition": {"scheme": "features", "parties": 2, "standardise": True, "test_fraction": 0.2},
    "problem": {
        "kind": "vertical",
        "loss": "softmax",
        "mean": True,
        **SPLIT,
    },
    "run": {"rounds": 200, "batch_size": 32},
}
_AROUND: dict[str, Tables] = {
    **dict.fromkeys(("split_training", "cvfl", "ef_vfl"), _HALVES),
    "egvfl_nonlinear": {
        "problem": {
            "kind": "vertical",
            "loss": "logistic",
            "l2": 1.0,
            "network": {"kind": "mlp", "hidden": [8]},
        }
    },
    "egvfl_dual": _RIDGE,
    "vertical_cg": _RIDGE,
    "logistic": {**_MADE, "partition": None},
    "least_squares": {
        "data": {"name": "diabetes"},
        "partition": {"scheme": "iid", "clients": 10, "test_fraction": 0.2},
    },
    "cnn": _MNIST,
    "cnn1": _MNIST,
    "cnn2": _CIFAR10,
    "resnet": _CIFAR10,
    "gru": {"data": {"name": "shakespeare"}, "partition": {"scheme": "client"}},
    "embedding_bag": {"data": {"name": "agnews"}},
    "transformer": {"data": {"name": "agnews"}},
    "column": {"data": {"name": "adult"}},
    "client": {"data": {"name": "femnist"}},
}
# Values where the example of a rule says too little.
_VALUES: dict[str, Tables] = {
    "supervised": {"model": {"kind": "mlp", "hidden": [32]}},
    "personal": {"model": {"kind": "mlp", "hidden": [32, 16]}},
    "adversarial": {"penalty_strength": 10.0},
    "vertical": {"loss": "logistic", "l2": 1.0},
    "lora": {"model": {"kind": "graph", "file": "net.safetensors"}, "rank": 4},
    "l1": {"strength": 1e-3},
    "group_l1": {"strength": 1e-3},
    "elastic_net": {"l1": 1e-3, "l2": 1e-3},
    "nuclear_norm": {"strength": 1e-3},
    "box": {"low": -1.0, "high": 1.0},
    "ball": {"radius": 10.0},
    "sum": {"parts": [{"kind": "l1", "strength": 1e-3}, {"kind": "box", "low": 0.0, "high": 1.0}]},
    "compressed": {"compressor": {"kind": "topk", "per_cent": 10}},
    "private": {"clip": 1.0, "noise": 1.0},
    "robust": {"aggregator": {"kind": "median"}},
    "unreliable": {"drop": 0.1},
    "randk": {"per_cent": 10, "shared": False},
    "krum": {"malicious": 2},
    "multi_krum": {"malicious": 2},
    "centred_clipping": {"radius": 1.0},
    "norm_bound": {"bound": 1.0},
    "exponential": {"start": 0.5, "decay": 0.99},
    "cosine": {"start": 0.5, "rounds": 100},
    "steps": {"start": 0.5, "at": [50, 75], "factor": 0.1},
    "warmup": {"rounds": 5, "after": {"kind": "cosine", "start": 0.5, "rounds": 95}},
    "momentum": {"momentum": 0.9},
    "adamw": {"weight_decay": 0.01},
    "label": {"clients": 10, "classes_each": 2},
    "dirichlet": {"clients": 10, "alpha": 0.5},
    "column": {"column": "race"},
    "features": {"parties": 3, "standardise": True},
    "synthetic": {"alpha": 1.0, "beta": 1.0, "clients": 20},
}
# Where a part stands: the table, what is there besides it, and its key.
_HOLDERS: dict[str, tuple[str, Tables, str]] = {
    "regularisers": ("problem", {}, "regulariser"),
    "models": ("problem", {"kind": "supervised"}, "model"),
    "solvers": ("algorithm", {"key": "ffmdr", "beta": 1.0}, "solver"),
    "compressors": ("wrapper", {"kind": "compressed"}, "compressor"),
    "aggregators": ("wrapper", {"kind": "robust"}, "aggregator"),
    "schedules": ("algorithm", {"key": "fedavg", "local_steps": 20}, "lr"),
    "optimisers": ("algorithm", {"key": "fedavg", "lr": 0.01, "local_steps": 20}, "optimiser"),
}
_TABLES = {  # and where others do: the table, and the key that names them
    "wrappers": ("wrapper", "kind"),
    "problems": ("problem", "kind"),
    "partitions": ("partition", "scheme"),
}


class Sample(NamedTuple):
    """A thing in a settings file."""

    table: str  # the table in which it stands, as in "problem"
    written: Tables  # what is written there
    whole: Tables  # a settings file with it

    @property
    def line(self) -> str:
        """One line, as in `problem.regulariser = { ... }`, which `--set` takes as well."""
        if self.table in ("problem", "algorithm", "run") and len(self.written) == 1:
            ((name, value),) = self.written.items()
            if name not in ("kind", "key"):
                return f"{self.table}.{name} = {toml.value(value)}"
        return f"{self.table} = {toml.value(self.written)}"

    @property
    def placed(self) -> str:
        """The same with a header of its table."""
        return toml.document({self.table: _held(self.table, self.written)}).rstrip()


def sample(registry: Registry[Any], key: str, thing: Any = None) -> Sample:
    """How the thing of a key is written; of one that is not fedloom's own, `thing` is given."""
    thing = registry[key] if thing is None else thing
    if registry is registries.ALGORITHMS:
        whole = method_file(key, thing)
        return Sample("algorithm", whole["algorithm"], whole)
    if registry is registries.METRICS:
        written: Tables = {"metrics": [key]}
        whole = _family("averaging")
        return Sample("run", written, _changed(whole, {"run": whole["run"] | written}))
    if registry is registries.DATASETS:
        written = {"name": key, **_VALUES.get(key, {})}
        divided = {} if isinstance(thing, DatasetEntry) else {"partition": None}
        return Sample("data", written, _changed(_family("averaging"), {"data": written, **divided}))
    if registry.kind in _HOLDERS:
        return _part(registry, key, thing)
    table, tag = _TABLES[registry.kind]
    written = {tag: key, **values(thing, key)}
    whole = _changed(_family(_family_of(thing)), _AROUND.get(key, {}))
    return Sample(table, written, _changed(whole, {table: _held(table, written)}))


def method_file(key: str, cls: type[Algorithm]) -> Tables:
    """A settings file for a method, with values to begin with."""
    entry = CATALOGUE.get(key)
    family = _family_of(cls) if entry is None else entry.family
    first = values(cls, key) if entry is None else entry.beginning()
    return _changed(_family(family), _AROUND.get(key, {}) | {"algorithm": {"key": key, **first}})


def values(cls: Any, key: str = "") -> Tables:
    """Parameters of a first try: those that have no default, and what makes a sense of it."""
    if key in _VALUES:
        return copy.deepcopy(_VALUES[key])
    if not hasattr(cls, "__leaves__"):
        return {}
    parts = building.parts_of(cls)
    found: Tables = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING or field.name in ("inner", "secret"):
            continue
        part = parts.get(field.name)
        example = field.metadata["rule"].example if field.metadata else None
        if example is not None:  # a step size is a number first, though it may be a schedule
            found[field.name] = example
        elif isinstance(part, Registry):
            first = next(iter(part))
            found[field.name] = {"kind": first, **values(part[first], first)}
        elif isinstance(part, type):
            found[field.name] = values(part)
        else:
            found[field.name] = None
    return found


def _part(registry: Registry[Any], key: str, thing: Any) -> Sample:
    """A thing that is a parameter of others."""
    table, besides, name = _HOLDERS[registry.kind]
    part = {name: {"kind": key, **values(thing, key)}}
    family = {"regularisers": "composite", "solvers": "minimax"}.get(registry.kind, "averaging")
    whole = _changed(_family(family), _AROUND.get(key, {}))
    kept = whole["problem"] if registry is registries.REGULARISERS else {}
    holder = {**kept, **besides, **part}
    whole = _changed(whole, {table: _held(table, holder)})
    return Sample(table, holder if table == "wrapper" else part, whole)


def _held(table: str, written: Tables) -> Any:
    """Wrappers are a list of tables."""
    return [written] if table == "wrapper" else written


def _family(name: str) -> Tables:
    """The file of a family, with a method of it."""
    start = CATALOGUE[_START[name]]
    return _changed(FAMILIES[name], {"algorithm": {"key": start.key, **start.beginning()}})


def _family_of(thing: Any) -> str:
    """The family whose file suits a method, a problem or a partition that is in none."""
    if issubclass(thing, ByFeatures):
        return "vertical"
    if issubclass(thing, Algorithm) and thing.takes == "smooth" and thing.takes_regulariser:
        return "composite"
    kind = thing.takes if issubclass(thing, Algorithm) else getattr(thing, "kind", "smooth")
    return _OF_KIND.get(kind, "averaging")


def _changed(whole: Tables, changes: Tables) -> Tables:
    """Other tables in the place of some, or none; in the order in which people think of them."""
    order = ("data", "partition", "problem", "algorithm", "wrapper", "run")
    found = copy.deepcopy({**whole, **changes})
    return {name: found[name] for name in order if found.get(name) is not None}
