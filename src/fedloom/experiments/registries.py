"""The registries: everything that settings files may name, kind by kind."""

from collections.abc import Callable, Iterable
from typing import Any

from fedloom import algorithms, models, optimisers, problems, schedules
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.algorithms.minimax.inner import Solver
from fedloom.algorithms.wrappers import WRAPPERS as OWN_WRAPPERS
from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.data import CATALOGUE as OWN_DATASETS
from fedloom.data import SCHEMES, synthetic
from fedloom.data.schemes import ByFeatures, Scheme
from fedloom.errors import ParameterError
from fedloom.experiments.addresses import address, slots, thing_at
from fedloom.experiments.locations import Location
from fedloom.experiments.registry import Registry
from fedloom.hints import closest
from fedloom.metrics.catalogue import CATALOGUE as OWN_METRICS
from fedloom.models.base import Model
from fedloom.operators import aggregators, compressors
from fedloom.problems.base import Metric
from fedloom.protocol import Algorithm


def _made_from(*bases: type) -> Callable[[Any], bool]:
    """A parametrised class with one of these bases; bases themselves are not."""
    return lambda thing: (
        isinstance(thing, type) and issubclass(thing, bases) and "__leaves__" in vars(thing)
    )


def _words(base: type, decorator: str = "parametrised") -> str:
    return f"a class with @{decorator} above it and {base.__name__} as its base"


_method, _wrapper = _made_from(Algorithm), _made_from(Wrapper)

ALGORITHMS: Registry[type] = Registry(
    "algorithms",
    {key: entry.cls for key, entry in CATALOGUE.items()},
    lambda thing: _method(thing) and not _wrapper(thing),
    _words(Algorithm, "algorithm"),
)
WRAPPERS: Registry[type] = Registry(
    "wrappers", OWN_WRAPPERS, _wrapper, _words(Wrapper, "algorithm")
)
PROBLEMS: Registry[type] = Registry(
    "problems",
    {
        "logistic": problems.Logistic,
        "multinomial": problems.Multinomial,
        "least_squares": problems.LeastSquares,
        "poisson": problems.Poisson,
        "multi_label": problems.MultiLabel,
        "cox": problems.Cox,
        "supervised": problems.Supervised,
        "auc": problems.AUC,
        "adversarial": problems.Adversarial,
        "bilinear": problems.Bilinear,
        "personal": problems.Personal,
        "vertical": problems.Vertical,
    },
    _made_from(problems.Problem),
    _words(problems.Problem),
)
REGULARISERS: Registry[type] = Registry(
    "regularisers",
    {
        "zero": problems.Zero,
        "l1": problems.L1,
        "group_l1": problems.GroupL1,
        "elastic_net": problems.ElasticNet,
        "nuclear_norm": problems.NuclearNorm,
        "box": problems.Box,
        "ball": problems.Ball,
        "simplex": problems.Simplex,
        "sum": problems.Sum,
    },
    _made_from(problems.Regulariser),
    _words(problems.Regulariser),
)
MODELS: Registry[type] = Registry("models", models.REGISTRY, _made_from(Model), _words(Model))
SOLVERS: Registry[type] = Registry(
    "solvers",
    {"sgda": algorithms.SGDA, "saga": algorithms.SAGA, "exact": algorithms.Exact},
    _made_from(Solver),
    _words(Solver),
)
COMPRESSORS: Registry[type] = Registry(
    "compressors",
    {
        "identity": compressors.Identity,
        "randk": compressors.RandK,
        "topk": compressors.TopK,
        "random_rounding": compressors.RandomRounding,
        "natural": compressors.Natural,
        "low_rank": compressors.LowRank,
    },
    _made_from(compressors.Compressor),
    _words(compressors.Compressor),
)
AGGREGATORS: Registry[type] = Registry(
    "aggregators",
    {
        "median": aggregators.Median,
        "trimmed_mean": aggregators.TrimmedMean,
        "krum": aggregators.Krum,
        "multi_krum": aggregators.MultiKrum,
        "geometric_median": aggregators.GeometricMedian,
        "centred_clipping": aggregators.CentredClipping,
        "norm_bound": aggregators.NormBound,
    },
    _made_from(aggregators.Aggregator),
    _words(aggregators.Aggregator),
)
SCHEDULES: Registry[type] = Registry(
    "schedules",
    {
        "exponential": schedules.Exponential,
        "cosine": schedules.Cosine,
        "steps": schedules.Steps,
        "warmup": schedules.Warmup,
    },
    _made_from(schedules.Schedule),
    _words(schedules.Schedule),
)
OPTIMISERS: Registry[type] = Registry(
    "optimisers",
    {
        "sgd": optimisers.SGD,
        "momentum": optimisers.Momentum,
        "adam": optimisers.Adam,
        "adamw": optimisers.AdamW,
    },
    _made_from(optimisers.Optimiser),
    _words(optimisers.Optimiser),
)
PARTITIONS: Registry[type] = Registry(
    "partitions", SCHEMES, _made_from(Scheme, ByFeatures), _words(Scheme)
)
# Fedloom's own are entries of a catalogue, and one function; those of others are functions.
DATASETS: Registry[Any] = Registry(
    "datasets",
    {**OWN_DATASETS, "synthetic": synthetic},
    lambda thing: callable(thing) and not isinstance(thing, type),
    "a function that returns a fl.data.Dataset",
)
# Fedloom's own are entries of a catalogue, which say what they are; those of others are metrics.
METRICS: Registry[Any] = Registry(
    "metrics",
    OWN_METRICS,
    lambda thing: isinstance(thing, Metric),
    "a fl.Metric(function, larger_is_better=...)",
)
# Whose things are parts of others: a field annotated with such a base is a table with a `kind`.
OF_PARTS: dict[type, Registry[type]] = {
    problems.Regulariser: REGULARISERS,
    Model: MODELS,
    Solver: SOLVERS,
    compressors.Compressor: COMPRESSORS,
    aggregators.Aggregator: AGGREGATORS,
    schedules.Schedule: SCHEDULES,
    optimisers.Optimiser: OPTIMISERS,
}
ALL: tuple[Registry[Any], ...] = (
    *(ALGORITHMS, WRAPPERS, PROBLEMS, REGULARISERS, MODELS, SOLVERS, COMPRESSORS, AGGREGATORS),
    *(SCHEDULES, OPTIMISERS, PARTITIONS, DATASETS, METRICS),
)


def code_of_others(tables: dict[str, Any]) -> set[str]:
    """What a settings file names that is not fedloom's own."""
    return {s.name for s in slots(tables) if any(registry.beyond(s.name) for registry in ALL)}


def find_anywhere(
    name: str, place: Location, also: Iterable[str] = ()
) -> list[tuple[Registry[Any], Any]]:
    """What a key or an address stands for, of whatever kinds it is; `also` are known as well."""
    own = [(registry, registry[name]) for registry in ALL if name in registry]
    if own:
        return own
    at = address(name)
    if at is not None:
        thing = thing_at(at, place)
        for registry in ALL:
            if registry.fits(thing):
                return [(registry, thing)]
        kinds = ", ".join(registry.kind for registry in ALL)
        raise place.error(f"{name} must be one of the {kinds}; it is none. Change it.")
    for registry in ALL:
        if registry.beyond(name):
            return [(registry, registry.find(name, place))]
    keys = [*also, *(key for registry in ALL for key in registry)]
    raise ParameterError(
        f"KEY must be from one of the lists of `fedloom list`; got {name!r}. "
        f"{closest(name, keys, where='fedloom list KIND')}"
    )
