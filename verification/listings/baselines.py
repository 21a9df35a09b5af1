"""Baselines of the averaging and the robust family, on linear models."""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from fedloom.measuring.result import Result
from fedloom.problems import Zero
from papers import averaging_baselines as baselines
from papers import robust
from verification.cases import Case
from verification.listings.base import Listing, Pair
from verification.listings.linear import FREE, given, listing, posed, start
from verification.values import steps

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


def taken(case: Case) -> list[int]:
    """How many steps each client takes in a round."""
    steps = case.method.local_steps
    if isinstance(steps, int):
        return [steps] * len(case.data.sizes)
    batches = [-(-size // (case.batch_size or size)) for size in case.data.sizes]
    return [int(steps.split()[0]) * many for many in batches]


def fednova(case: Case, result: Result) -> Iterator[Pair]:
    """The model, of clients that take unlike numbers of steps."""
    options = given(case, "lr", "cohort", "server_lr", "momentum")
    expected = baselines.fednova(*start(case), taken=taken(case), weights=weights(case), **options)
    yield Pair("model", result.model, expected)


def feddyn(case: Case, result: Result) -> Iterator[Pair]:
    """The model and all gradients."""
    options = given(case, "lr", "alpha", "cohort", steps="local_steps")
    theta, h, gradients = baselines.feddyn(*start(case), weights=weights(case), **options)
    yield Pair("model", result.model, theta)
    yield Pair("hub.gradient", result.state.hub.gradient, h)
    yield Pair("client.gradient", result.state.clients[0].gradient, gradients)


def scaffnew(case: Case, result: Result) -> Iterator[Pair]:
    """The model and all control variates."""
    clients, drawn = start(case)
    options = given(case, "lr", "p", "cohort")
    coin = baselines.tosses(drawn, case.method.p)
    x, h = baselines.scaffnew(clients, drawn, coin, weights=weights(case), **options)
    yield Pair("model", result.model, x)
    controls = result.state.clients[0].control - result.state.hub.control
    yield Pair("client.control - hub.control", controls, h)


def scaff_pd(case: Case, result: Result) -> Iterator[Pair]:
    """The model, the weights of the clients and all control variates."""
    options = given(
        case, "lr", "weight_lr", "mu", "server_lr", "extrapolation", steps="local_steps"
    )
    x, lam, c_i = robust.scaff_pd(*start(case), **options)
    yield Pair("model", result.model, x)
    yield Pair("hub.weights", result.state.hub.weights, lam)
    yield Pair("client.control", result.state.clients[0].control, c_i)


def term(case: Case, result: Result) -> Iterator[Pair]:
    """The model and the tilted loss."""
    options = given(case, "lr", "tilt", "cohort", "tracking", steps="local_steps")
    x, risk = robust.term(*start(case), weights=weights(case), **options)
    yield Pair("model", result.model, x)
    yield Pair("hub.level", result.state.hub.level, risk)


ANY_STEPS = {"local_steps": steps() | st.sampled_from(["1 epoch", "2 epochs"])}
LISTINGS: dict[str, Listing] = {
    "fedavgm": listing(fedopt("avgm", "momentum"), WEIGHED),
    "fedadagrad": listing(fedopt("adagrad", "b1", "tau"), WEIGHED),
    "fedadam": listing(fedopt("adam", "b1", "b2", "tau"), WEIGHED),
    "fedyogi": listing(fedopt("yogi", "b1", "b2", "tau"), WEIGHED),
    "fednova": Listing(lambda n: ANY_STEPS, WEIGHED, fednova),
    "feddyn": listing(feddyn, WEIGHED),
    "scaffnew": listing(scaffnew, WEIGHED),
    "scaff_pd": listing(scaff_pd, FREE),
    "term": listing(term, WEIGHED),
}
