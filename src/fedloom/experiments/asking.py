"""The columns that settings ask for in the table of a comparison, checked before it runs."""

from fedloom.experiments.comparing import check_metric
from fedloom.experiments.rows_of_methods import Asked
from fedloom.experiments.settings import Settings
from fedloom.hints import closest
from fedloom.metrics import chosen as metrics_of


def asked_of(setup: Settings) -> Asked:
    """The columns of the table, the main one first, and what is said of them."""
    how, place = setup.compare, setup.place / "compare"
    main = how.metric or next(iter(how.metrics), None)
    main = main or metrics_of.headline(setup.metrics, setup.problem) or "round"
    metrics = tuple(dict.fromkeys((main, *how.metrics)))
    for metric in metrics:
        check_metric(metric, setup.metrics, setup.problem)
    if how.paired is not None and how.paired not in setup.algorithms:
        raise (place / "paired").error(
            f"must name one of the methods; got {how.paired!r}. "
            f"{closest(how.paired, setup.algorithms)}"
        )
    return Asked(metrics, how.target, how.interval, how.paired)


def judged_by(setup: Settings) -> str:
    """The column by which a sweep judges settings."""
    return setup.sweep.metric or asked_of(setup).metrics[0]
