"""Averaging, composite, robust and some personal methods: all on linear models."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from fedloom import draws
from fedloom.measuring.result import Result
from fedloom.problems import L1, Ball, LeastSquares, Logistic, Zero
from papers import averaging, composite, composite_baselines, personal, personal_baselines, robust
from papers.reference import Draws, LogisticClients
from verification.cases import Case, OfRows
from verification.listings.base import Listing, Pair, only
from verification.problems import Posed, penalties, seeds, sizes, widths
from verification.values import Strategy, hundredths, steps


class LinearClients(LogisticClients):
    """The clients of a case, with the squared loss as well."""

    def __init__(self, case: Case):
        self.x, self.y = map(list, zip(*case.data.parts(), strict=True))
        self.n, self.d, self.l2 = len(self.x), case.data.width, case.problem.l2
        self.squared = isinstance(case.problem, LeastSquares)

    def value(self, i, w, rows=slice(None)):
        """The mean loss and the penalty."""
        if not self.squared:
            return super().value(i, w, rows)
        error = self.x[i][rows] @ w - self.y[i][rows]
        return 0.5 * np.mean(error**2) + 0.5 * self.l2 * w @ w

    def grad(self, i, w, rows=slice(None)):
        """Its gradient."""
        if not self.squared:
            return super().grad(i, w, rows)
        x = self.x[i][rows]
        return x.T @ (x @ w - self.y[i][rows]) / len(x) + self.l2 * w


def posed(regularisers: Strategy, *weights: str) -> Callable[[int], Strategy]:
    """Logistic and least-squares regression without intercept."""

    @st.composite
    def of(draw: Callable[[Strategy], Any], n: int) -> Posed:
        loss = draw(st.sampled_from([Logistic, LeastSquares]))
        weighing = st.sampled_from(weights or ("equal",))
        problem = loss(l2=draw(penalties), regulariser=draw(regularisers), weights=draw(weighing))
        classes = 2 if loss is Logistic else 0
        return Posed(problem, OfRows(draw(sizes(n)), draw(widths), classes, draw(seeds)))

    return of


def given(case: Case, *names: str, **renamed: str) -> dict[str, Any]:
    """The method's fields under the names that a transcription has for them."""
    options = {name: getattr(case.method, name) for name in names}
    options |= {theirs: getattr(case.method, ours) for theirs, ours in renamed.items()}
    return options | {"rounds": case.rounds}


def start(case: Case) -> tuple[LinearClients, Draws]:
    """What every transcription takes first."""
    clients = LinearClients(case)
    return clients, Draws(clients, case.batch_size, case.seed)


def model_only(transcription: Callable, *names: str, **renamed: str) -> Callable:
    """Compare the model alone; where g is L1, the transcription takes its weight."""

    def pairs(case: Case, result: Result) -> Iterator[Pair]:
        options = given(case, *names, **renamed)
        if isinstance(case.problem.regulariser, L1):
            options["l1"] = case.problem.regulariser.strength
        yield Pair("model", result.model, transcription(*start(case), **options))

    return pairs


def fedavg(case: Case, result: Result) -> Iterator[Pair]:
    """The model, with clients weighed alike or by size."""
    weights = case.data.sizes if case.problem.weights == "size" else None
    options = given(case, "lr", "cohort", "server_lr", steps="local_steps")
    yield Pair("model", result.model, averaging.fedavg(*start(case), weights=weights, **options))


def scaffold(case: Case, result: Result) -> Iterator[Pair]:
    """The model and all controls."""
    options = given(case, "lr", "cohort", "server_lr", "option", steps="local_steps")
    x, c, c_i = averaging.scaffold(*start(case), **options)
    yield Pair("model", result.model, x)
    yield Pair("hub.control", result.state.hub.control, c)
    yield Pair("client.control", result.state.clients[0].control, c_i)


def decoupled_prox(case: Case, result: Result) -> Iterator[Pair]:
    """The point, its proximal map and the corrections."""
    options = given(case, "lr", "server_lr", steps="local_steps")
    l1 = case.problem.regulariser.strength
    x, model, corrections = composite.decoupled_prox(*start(case), l1=l1, **options)
    yield Pair("hub.point", result.state.hub.point, x)
    yield Pair("model", result.model, model)
    yield Pair("client.correction", result.state.clients[0].correction, corrections[-1])


def fast_fedda(case: Case, result: Result) -> Iterator[Pair]:
    """The model, counted either way."""
    options = given(case, "mu", "gamma", "cohort", steps="local_steps")
    options["released"] = case.method.count == "released"
    l1 = case.problem.regulariser.strength
    yield Pair("model", result.model, composite.fast_fedda(*start(case), l1=l1, **options))


def robustly(transcription: Callable, *names: str, **renamed: str) -> Callable:
    """Compare model, weights of the clients, and averaged model."""

    def pairs(case: Case, result: Result) -> Iterator[Pair]:
        clients, drawn = start(case)
        options = given(case, *names, **renamed)
        options["radius"] = getattr(case.problem.regulariser, "radius", math.inf)
        if hasattr(case.method, "weight_floor"):
            options["floor"] = case.method.weight_floor / clients.n
        if hasattr(case.method, "prior"):
            options["step_of_lambda"] = step_of_lambda(case, clients.n)
        model, weights, average = transcription(clients, drawn, **options)
        yield Pair("model", result.model, model)
        yield Pair("hub.weights", result.state.hub.weights, weights)
        yield Pair("hub.averages.model", result.state.hub.averages.model, average)

    return pairs


def step_of_lambda(case: Case, n: int) -> Callable:
    """The map of DRFA-Prox."""
    equal, mu = np.full(n, 1 / n), case.method.mu
    if case.method.prior == "kl":
        return lambda a, rate: robust.kl_map(a, rate * mu, equal)
    return lambda a, rate: robust.simplex((a + rate * mu * equal) / (1 + rate * mu))


def pfedme(case: Case, result: Result) -> Iterator[Pair]:
    """The model and the personal ones."""
    options = given(
        case, "lr", "penalty", "outer_lr", "mixing", "cohort", inner="inner_steps",
        steps="local_steps",
    )  # fmt: skip
    w, own = personal.pfedme(*start(case), **options)
    yield Pair("model", result.model, w)
    yield Pair("client.personal", result.state.clients[0].personal, own)


def per_fedavg(case: Case, result: Result) -> Iterator[Pair]:
    """The model; each step has three batches."""
    clients, drawn = start(case)

    def triples(r: int, i: int, k: int) -> list[np.ndarray]:
        step = draws.nth(draws.client_key(drawn.root, r, 1, i), k)
        return [drawn.rows(key, i) for key in jax.random.split(step, 3)]

    options = given(case, "lr", "cohort", a="personal_lr", e="difference", steps="local_steps")
    hessian_free = case.method.variant == "hessian-free"
    w = personal.per_fedavg(clients, triples, drawn, hessian_free=hessian_free, **options)
    yield Pair("model", result.model, w)


def ditto(case: Case, result: Result) -> Iterator[Pair]:
    """The model, and the own ones of those who took part."""
    options = given(case, "lr", "penalty", "personal_steps", "cohort", steps="local_steps")
    options["personal_lr"] = case.method.personal_lr or case.method.lr
    w, own = personal_baselines.ditto(*start(case), **options)
    yield Pair("model", result.model, w)
    for i, v in own.items():
        yield Pair(f"client {i}.model", result.state.clients[0].model[i], v)


def apfl(case: Case, result: Result) -> Iterator[Pair]:
    """The model, and the own ones with their shares of those who took part."""
    options = given(case, "lr", "alpha", "alpha_lr", "cohort", steps="local_steps")
    options["personal_lr"] = case.method.personal_lr or case.method.lr
    w, own, shares = personal_baselines.apfl(*start(case), **options)
    yield Pair("model", result.model, w)
    for i, v in own.items():
        yield Pair(f"client {i}.model", result.state.clients[0].model[i], v)
        yield Pair(f"client {i}.alpha", result.state.clients[0].alpha[i], shares[i])


FREE, SPARSE = posed(st.just(Zero())), posed(st.builds(L1, hundredths(0, 0.2)))
IN_A_BALL = posed(st.just(Zero()) | st.builds(Ball, hundredths(0.05, 1)))


def listing(pairs: Callable, problem: Callable, tolerance: float = 1e-12, **fixed: Any) -> Listing:
    """A listing whose clients all take the same number of steps."""
    return Listing(lambda n: {"local_steps": steps()} | only(**fixed), problem, pairs,
                   tolerance=tolerance)  # fmt: skip


def cohorts(listing: Listing) -> Listing:
    """The same listing, which does not know how to ask everyone."""
    fields = listing.fields
    return Listing(
        lambda n: fields(n) | {"cohort": st.integers(1, n)}, listing.problem, listing.pairs
    )


STEPS = {"steps": "local_steps"}
LISTINGS: dict[str, Listing] = {
    "fedavg": listing(fedavg, posed(st.just(Zero()), "equal", "size")),
    "fedprox": listing(
        model_only(averaging.fedprox, "lr", "mu", "cohort", **STEPS), FREE,
        sampling="uniform", stragglers=0,
    ),
    "scaffold": listing(scaffold, FREE),
    "decoupled_prox": listing(decoupled_prox, SPARSE, cohort=None),
    "fedmid": listing(
        model_only(composite.fedmid, "lr", "cohort", "server_lr", "server_prox", **STEPS), SPARSE
    ),
    "feddualavg": listing(
        model_only(composite.feddualavg, "lr", "cohort", "server_lr", **STEPS), SPARSE
    ),
    "fast_fedda": listing(fast_fedda, SPARSE),
    "feddr": listing(
        model_only(composite.feddr, "step", "lr", "relaxation", "cohort", **STEPS), SPARSE,
        accuracy=None,
    ),
    "fedcanon": listing(
        model_only(
            lambda *first, **options: composite_baselines.fedcanon(*first, **options)[0],
            "lr", "cohort", "server_lr", steps="local_steps",
        ),
        SPARSE,
    ),
    "fedadmm": listing(
        model_only(composite.fedadmm, "rho", "lr", "cohort", **STEPS), SPARSE, accuracy=None
    ),
    "afl": listing(robustly(robust.afl, "lr", "weight_lr"), IN_A_BALL),
    "drfa": listing(
        robustly(
            robust.drfa, "lr", "weight_lr", "cohort", "sampling", decay="weight_lr_decay", **STEPS
        ),
        IN_A_BALL,
    ),
    "drfa_prox": listing(
        robustly(robust.drfa, "lr", "weight_lr", "cohort", **STEPS), IN_A_BALL
    ),
    "drfa_ga": cohorts(
        listing(robustly(robust.drfa_ga, "lr", "weight_lr", "mu", "cohort", **STEPS), IN_A_BALL)
    ),
    "q_fedavg": listing(
        model_only(robust.q_fedavg, "lr", "q", "cohort", **STEPS), FREE, sampling="uniform"
    ),
    "q_fedsgd": listing(
        model_only(robust.q_fedsgd, "lr", "q", "cohort"), FREE, sampling="uniform"
    ),
    "pfedme": listing(pfedme, FREE),
    "per_fedavg": listing(per_fedavg, FREE, tolerance=1e-10),
    "fine_tuning": listing(fedavg, posed(st.just(Zero()), "equal", "size")),
    "apfl": listing(apfl, FREE),
    "ditto": listing(ditto, FREE, personal_steps=2),
}  # fmt: skip
