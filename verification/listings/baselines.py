"""Averaging with a thoughtful hub or thoughtful clients, on linear models."""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from fedloom.measuring.result import Result
from fedloom.problems import Zero
from papers import averaging_baselines as baselines
from verification.cases import Case
from verification.listings.base import Listing, Pair
from verification.listings.linear import given, listing, posed, start

WEIGHED = posed(st.just(Zero()), "equal", "size")


def weights(case: Case) -> list[int] | None:
    """How clients count in the transcription."""
    return list(case.data.sizes) if case.problem.weights == "size" else None


def fedopt(rule: str, *names: str) -> Callable:
    """The model, and all that the hub's optimiser remembers."""

    def pairs(case: Case, result: Result) -> Iterator[Pair]:
        options = given(case, "lr", "cohort", "server_lr", *names, steps="local_steps")
        expected = baselines.fedopt(*start(case), rule, weights=weights(case), **options)
        for name, got, wanted in zip(
            result.state.hub._fields, result.state.hub, expected, strict=False
        ):
            yield Pair(f"hub.{name}", got, wanted)

    return pairs


LISTINGS: dict[str, Listing] = {
    "fedavgm": listing(fedopt("avgm", "momentum"), WEIGHED),
    "fedadagrad": listing(fedopt("adagrad", "b1", "tau"), WEIGHED),
    "fedadam": listing(fedopt("adam", "b1", "b2", "tau"), WEIGHED),
    "fedyogi": listing(fedopt("yogi", "b1", "b2", "tau"), WEIGHED),
}
