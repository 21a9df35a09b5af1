"""The personal family, on networks of one hidden layer."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from fedloom import draws
from fedloom.algorithms import Quantisation
from fedloom.measuring.result import Result
from fedloom.models import MLP
from fedloom.population import assemble
from fedloom.problems import Personal
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from papers import personal, personal_baselines
from papers.personal import Levels, Networks
from papers.reference import Draws
from verification.cases import Case, OfRows
from verification.listings.base import Listing, Pair, only
from verification.problems import Posed, penalties, seeds, sizes
from verification.values import Strategy, hundredths, steps

CLASSES = 3
bits = st.sampled_from([1, 2, 3, 32])
networks = st.builds(MLP, st.tuples(steps(2, 3)))


def posed(alike: bool) -> Callable[[int], Strategy]:
    """One network for all, or own ones of two architectures; the hidden layer is quantised."""

    @st.composite
    def of(draw: Callable[[Strategy], Any], n: int) -> Posed:
        own = None if alike else (draw(networks), draw(networks))
        widths = draw(bits) if alike else (draw(bits), draw(bits))
        problem = Personal(draw(networks), own, widths, keep=(-1,), l2=draw(penalties))
        return Posed(problem, OfRows(draw(sizes(n)), draw(st.integers(2, 4)), CLASSES, draw(seeds)))

    return of


def start(case: Case) -> tuple[Networks, Draws]:
    """What every transcription takes first."""
    net = Networks(sizes=(CLASSES,), classes=CLASSES, l2=case.problem.l2)
    net.x, net.y = map(list, zip(*case.data.parts(), strict=True))
    net.n, net.d = len(net.x), case.data.width
    return net, Draws(net, case.batch_size, case.seed)


def by_client(case: Case, groups: tuple[Any, ...]) -> list[Any]:
    """The states of all clients in their order, from those of the groups."""
    clients = case.data.build()
    states: dict[int, Any] = {}
    for (_, members), group in zip(case.problem.groups(clients), groups, strict=True):
        for place, i in enumerate(range(len(clients)) if members is None else members):
            states[i] = jax.tree.map(lambda leaf: np.asarray(leaf[place]), group)  # noqa: B023
    return [states[i] for i in range(len(clients))]


def first_state(case: Case) -> tuple[np.ndarray, list[Any]]:
    """The common model and all clients' states before the first round."""
    federation = assemble(case.problem, case.data.build(), case.batch_size, case.precision)
    root = draws.key(case.seed)
    hub, groups = program.first_state(case.method, federation, root, Plan(None, None))
    return np.asarray(getattr(hub, "model", ())), by_client(case, groups)


def levels_of(case: Case) -> list[Levels | None]:
    """Each client's quantiser; None: full precision."""
    quantise, problem, d = case.method.quantise, case.problem, case.data.width

    def one(i: int) -> Levels | None:
        own = problem.model if problem.own is None else problem.own[i % 2]
        width = dealt(problem.bits, i) if quantise.bits is None else quantise.bits
        (hidden,) = own.hidden
        if width == 32:
            return None
        return Levels(
            hidden, hidden + d * hidden, pull=quantise.pull, centre_lr=quantise.centre_lr,
            sign=quantise.sign, per_cell=quantise.per_cell, sharpness=quantise.sharpness,
            weight_bound=quantise.weight_bound, centre_bound=quantise.centre_bound,
        )  # fmt: skip

    return [one(i) if quantise else None for i in range(len(case.data.sizes))]


def dealt(choice: Any, i: int) -> Any:
    """What client i has, of one thing for all or several that are dealt in turn."""
    return choice[i % len(choice)] if isinstance(choice, tuple) else choice


def passes_of(case: Case) -> Callable[[int, int], int]:
    """How often a client has gone through its rows after so many steps."""
    return lambda i, done: done // -(-case.data.sizes[i] // case.batch_size)


def vector(model: Any) -> np.ndarray:
    """A model as a vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)])


def counts(case: Case) -> dict[str, Any]:
    """What all transcriptions of this file take."""
    method = case.method
    return {"lr": method.lr, "steps": method.local_steps, "rounds": case.rounds,
            "cohort": method.cohort}  # fmt: skip


def in_passes(case: Case) -> dict[str, Any]:
    """The same for those that count passes over the clients' rows."""
    return counts(case) | {"decay": case.method.decay, "passes": passes_of(case)}


def points(case: Case, states: list[Any], x: list, c: list, levels: list) -> Iterator[Pair]:
    """Own models, and the centres of those that are quantised."""
    for i, state in enumerate(states):
        if x[i] is not None:
            yield Pair(f"client {i}.model", state.model, x[i])
            if levels[i] is not None:
                yield Pair(f"client {i}.centres", state.centres[0], c[i])


def quped(case: Case, result: Result) -> Iterator[Pair]:
    """The common model, the own ones and their centres."""
    w, clients = first_state(case)
    levels = levels_of(case)
    centres = [s.centres[0] if own else None for s, own in zip(clients, levels, strict=True)]
    options = in_passes(case)
    options["steps"] -= case.method.strict_listing
    w, x, c = personal.quped(
        *start(case), w, [state.model for state in clients], centres, levels,
        common_lr=case.method.common_lr, lp=case.method.guidance, **options,
    )  # fmt: skip
    yield Pair("model", vector(result.model), w)
    yield from points(case, by_client(case, result.state.clients), x, c, levels)


def qupel(case: Case, result: Result) -> Iterator[Pair]:
    """The same, with own models that begin at the common one."""
    w, _ = first_state(case)
    levels = levels_of(case)
    width = case.method.quantise.bits or case.problem.bits
    w, x, c = personal.qupel(
        *start(case), w, levels[0], m=2**width, common_lr=case.method.common_lr,
        lp=case.method.closeness, **in_passes(case),
    )  # fmt: skip
    yield Pair("model", vector(result.model), w)
    yield from points(case, by_client(case, result.state.clients), x, c, levels)


def alone(case: Case, result: Result) -> Iterator[Pair]:
    """Quantised training, and plain training: the steps of QuPeD on the loss only."""
    net, drawn = start(case)
    _, clients = first_state(case)
    quantised = hasattr(case.method, "quantise")
    levels = levels_of(case) if quantised else [None] * net.n
    point = lambda state: state.point if hasattr(state, "point") else state  # noqa: E731
    x = [point(state).model for state in clients]
    c = [point(s).centres[0] if own else None for s, own in zip(clients, levels, strict=True)]
    done, passes = [0] * net.n, passes_of(case)
    for r in range(1, case.rounds + 1):
        for i in drawn.cohort(r, case.method.cohort):
            for batch in drawn.batches(r, 1, i, case.method.local_steps):
                slope = lambda v: net.grad(i, v, batch)  # noqa: B023, E731
                time = passes(i, done[i]) + 1
                x[i], c[i] = personal.personal_step(
                    x[i], c[i], levels[i], slope, case.method.lr, time
                )
                done[i] += 1
    states = [point(state) for state in by_client(case, result.state.clients)]
    yield from points(case, states, x, c, levels)


def mutual_learning(case: Case, result: Result) -> Iterator[Pair]:
    """The common model and the own ones."""
    w, clients = first_state(case)
    w, x = personal.mutual_learning(
        *start(case), w, [state.model for state in clients], a=case.method.guidance,
        b=case.method.common_guidance, **in_passes(case),
    )  # fmt: skip
    yield Pair("model", vector(result.model), w)
    yield from points(case, by_client(case, result.state.clients), x, [], [None] * len(x))


def own_coordinates(case: Case, size: int) -> np.ndarray:
    """Which numbers of the common network's vector (b1, W1, b2, W2) are a client's own."""
    (width,) = case.problem.model.hidden
    hidden = width + case.data.width * width
    names = ["0.bias"] * width + ["0.weights"] * (hidden - width)
    names += ["1.bias"] * CLASSES + ["1.weights"] * (size - hidden - CLASSES)
    return np.array([re.search(case.method.own, name) is not None for name in names])


def in_parts(case: Case, result: Result) -> Iterator[Pair]:
    """FedPer, and FedBN with the same exchange: the body at the hub, the heads at the clients."""
    w, clients = first_state(case)
    w, heads = personal_baselines.fedper(
        *start(case), w, [state.own for state in clients], own_coordinates(case, len(w)),
        **counts(case),
    )  # fmt: skip
    yield from of_parts(case, result, w, heads)


def fedrep(case: Case, result: Result) -> Iterator[Pair]:
    """The same, with steps on heads and then on bodies."""
    (net, drawn), (w, clients), method = start(case), first_state(case), case.method

    def batches(r: int, i: int) -> list[list[np.ndarray]]:
        keys = jax.random.split(draws.client_key(drawn.root, r, 1, i))
        return [
            [drawn.rows(draws.nth(key, k), i) for k in range(steps)]
            for key, steps in zip(keys, (method.head_steps, method.local_steps), strict=True)
        ]

    w, heads = personal_baselines.fedrep(
        net, drawn, batches, w, [state.own for state in clients], own_coordinates(case, len(w)),
        lr=method.lr, head_lr=method.head_lr or method.lr, rounds=case.rounds,
        cohort=method.cohort,
    )  # fmt: skip
    yield from of_parts(case, result, w, heads)


def of_parts(case: Case, result: Result, w: np.ndarray, heads: list[np.ndarray]) -> Iterator[Pair]:
    """The hub's model, and what each client has of its own."""
    yield Pair("model", vector(result.model), w)
    for i, state in enumerate(by_client(case, result.state.clients)):
        yield Pair(f"client {i}.own", state.own, heads[i])


def quantisations(*widths: int | None) -> Strategy:
    """Without the parts that no transcription has: growth and freezing."""
    return st.builds(
        Quantisation,
        bits=st.sampled_from(widths),
        pull=hundredths(0, 0.1),
        centre_lr=hundredths(0, 0.1),
        sharpness=st.none() | hundredths(1, 5),
        centre_sign=st.sampled_from(["corrected", "released"]),
        per_cell=st.booleans(),
        weight_bound=st.none() | hundredths(0.1, 1),
        centre_bound=st.none() | hundredths(0.01, 1),
    )


def listing(pairs: Callable, alike: bool, **fixed: Strategy) -> Listing:
    """A listing of this family, in whose steps nothing decays."""
    common = {"local_steps": steps(), **only(decay=1.0)}
    return Listing(lambda n: common | fixed, posed(alike), pairs, batch_sizes=st.integers(1, 8))


LISTINGS: dict[str, Listing] = {
    "quped": listing(
        quped, alike=False, quantise=quantisations(None, 2), local_steps=st.integers(2, 4)
    ),
    "qupel": listing(qupel, alike=True, quantise=quantisations(1, 2, 3)),
    "quantised_training": listing(
        alone, alike=True, quantise=quantisations(1, 2, 3), **only(optimiser="sgd")
    ),
    "local_training": listing(alone, alike=False),
    "mutual_learning": listing(mutual_learning, alike=False),
    "fedper": listing(in_parts, alike=True),
    "fedbn": listing(in_parts, alike=True),
    "fedrep": listing(fedrep, alike=True, head_steps=steps()),
}
