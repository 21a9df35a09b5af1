"""The tables [run], [compare], [sweep] and [federation] of a settings file."""

from typing import Any

from fedloom.draws import SEED
from fedloom.experiments.tracking import TRACKERS
from fedloom.parameters import (
    Rule,
    at_least,
    at_least_zero,
    between,
    flag,
    names,
    one_of,
    param,
    parametrised,
    positive,
)
from fedloom.pictures.labels import AXES
from fedloom.rules import number, text, title

SEARCHES = ("grid", "random", "optuna")
_batch_rule = Rule(
    lambda v: v == "full" or at_least(1).holds(v), 'a whole number >= 1, or "full"', 32
)
_log_rule = Rule(
    lambda v: names().holds(v) and all(name in TRACKERS for name in v),
    f"a list with names among {', '.join(TRACKERS)}",
    ["tensorboard"],
    {"type": "array", "items": {"enum": list(TRACKERS)}},
)


@parametrised
class RunSettings:
    """How a run is done: its length, batches, seed and metrics."""

    rounds: int = param(at_least(1), "number of rounds", default=100)
    batch_size: int | str = param(_batch_rule, "rows in a stochastic gradient", default=32)
    seed: int = param(SEED, "seed of all draws of the run", default=0)
    eval_every: int = param(at_least(1), "rounds between two evaluations", default=10)
    metrics: tuple[str, ...] | None = param(
        names("accuracy", "loss").or_none("the problem's"),
        "metrics by their names, or by addresses of your own",
        default=None,
    )
    precision: str = param(
        one_of("float32", "float64"), "precision of all numbers", default="float32"
    )
    lanes: int | None = param(
        at_least(1).or_none("as many as fit"),
        "clients that a device computes side by side",
        default=None,
    )
    deterministic: bool = param(
        flag, "whether a GPU gives the same bits whenever it compiles, more slowly", default=True
    )
    checkpoint_seconds: float = param(
        at_least_zero, "least time between two checkpoints", default=10.0
    )
    log: tuple[str, ...] = param(_log_rule, "trackers that get every evaluation", default=())

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `simulate`, with metrics by their names alone."""
        names = (
            *("rounds", "seed", "eval_every", "metrics", "precision"),
            *("lanes", "deterministic", "checkpoint_seconds"),
        )
        batch_size = None if self.batch_size == "full" else self.batch_size
        return {name: getattr(self, name) for name in names} | {"batch_size": batch_size}


@parametrised
class CompareSettings:
    """How methods are compared."""

    seeds: int = param(at_least(1), "number of seeds, from the run's own on", default=1)
    redivide: bool = param(
        flag,
        "whether every seed also draws its own division into training and test rows, so that the "
        "spread over seeds covers the choice of test rows too, and not only training",
        default=False,
    )
    metric: str | None = param(
        text("accuracy").or_none("the main one"),
        "column of the history that is compared, shown first, drawn, and tuned by a sweep",
        default=None,
    )
    metrics: tuple[str, ...] = param(
        names("loss", "accuracy_worst"), "further columns for tables", default=()
    )
    interval: float | None = param(
        between(0, 1).or_none("none"), "level of confidence intervals over seeds", default=None
    )
    paired: str | None = param(
        text("fedavg").or_none("no differences"),
        "method that the others are compared with, seed by seed",
        default=None,
    )
    target: float | None = param(
        number.or_none("nothing is reported"),
        "a value of the metric; when it is first reached is reported",
        default=None,
    )
    log: bool = param(flag, "whether the picture's vertical axis is logarithmic", default=False)
    against: str = param(one_of(*AXES), "the picture's horizontal axis", default="round")
    title: str = param(title, "title of the picture", default="")


# Fields of [compare] that no run depends on; a sweep keeps its scores by the metric.
ONLY_SHOWN = ("metrics", "interval", "paired", "target", "log", "against", "title")


@parametrised
class SweepSettings:
    """How settings are searched for."""

    metric: str | None = param(
        text("accuracy").or_none("that of [compare]"),
        "column by which settings are judged",
        default=None,
    )
    validation: float = param(
        between(0, 1), "share of the training rows that is held out to judge settings", default=0.2
    )
    search: str = param(
        one_of(*SEARCHES), "all combinations, random draws, or proposals of Optuna", default="grid"
    )
    trials: int = param(
        at_least(1), "number of settings for each method, unless search is a grid", default=20
    )
    search_seed: int = param(SEED, "seed of draws and held-out rows", default=0)
    halving: bool = param(flag, "whether poor settings are stopped early", default=False)


@parametrised
class FederationSettings:
    """How a run over real sites is done: who takes part, and what happens if sites are lost."""

    sites: tuple[str, ...] | None = param(
        names("berlin", "lyon").or_none("all that are connected"),
        "the sites that take part",
        default=None,
    )
    min_sites: int | None = param(
        at_least(1).or_none("all of them"),
        "least number of sites: with fewer the run pauses",
        default=None,
    )
    timeout: float = param(positive, "seconds after which a silent site is left out", default=120.0)
    fresh_if_stale: bool = param(
        flag, "whether a site that lost its state may start afresh", default=False
    )
    secure_aggregation: bool = param(
        flag, "whether the hub learns only sums of replies, no single reply", default=False
    )
