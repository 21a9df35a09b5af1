"""Problems and data that suit a method, drawn with their options."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fedloom.algorithms import EGVFLNonlinear
from fedloom.models import MLP
from fedloom.problems import (
    AUC,
    L1,
    Adversarial,
    Ball,
    Bilinear,
    Box,
    ElasticNet,
    GroupL1,
    LeastSquares,
    Logistic,
    Multinomial,
    NuclearNorm,
    Personal,
    Problem,
    Simplex,
    Supervised,
    Vertical,
    Zero,
)
from fedloom.protocol import Algorithm
from verification.cases import Data, OfColumns, OfMatrices, OfRows
from verification.values import Strategy, hundredths, steps

Draw = Callable[[Strategy], Any]
# jaxlib 0.10.2 went wrong beyond 16,384 rows; a draw in ten has a client with more.
MANY_ROWS = 17_000


class Posed(NamedTuple):
    """A problem with data that it takes."""

    problem: Problem
    data: Data


seeds = st.integers(0, 1000)
widths = st.integers(1, 5)
networks = st.builds(MLP, st.tuples(steps(1, 3)))
penalties = hundredths(0, 0.3)
weights = st.sampled_from(["equal", "size"])


@st.composite
def sizes(draw: Draw, n: int) -> tuple[int, ...]:
    """Numbers of rows of n clients, enough in all for a few classes; at times very many in one."""
    found = draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))
    found[0] = max(found[0], 4)
    if draw(st.integers(0, 9)) == 9:
        found[-1] = MANY_ROWS
    return tuple(found)


constraints = st.one_of(
    st.just(Zero()),
    st.builds(Ball, hundredths(0.1, 2)),
    st.builds(Box, st.just(-0.1), hundredths(0.1, 1)),
    st.builds(Simplex, hundredths(0.2, 2)),
)
smooth_regularisers = st.one_of(
    st.builds(L1, hundredths(0, 0.2)),
    st.builds(ElasticNet, hundredths(0, 0.2), hundredths(0, 0.2)),
    st.builds(GroupL1, hundredths(0, 0.2)),
)


def regularisers(method: Algorithm, matrices: bool = False) -> Strategy:
    """What a method takes as the problem's g."""
    if method.takes_constraint:
        return constraints
    if not method.takes_regulariser:
        return st.just(Zero())
    if getattr(method, "regularise", "prox") == "subgradient":
        return smooth_regularisers
    low_rank = [st.builds(NuclearNorm, hundredths(0, 0.2))] if matrices else []
    return st.one_of(constraints, smooth_regularisers, *low_rank)


@st.composite
def smooth(draw: Draw, method: Algorithm, n: int) -> Posed:
    """Linear models with their losses, or a small network."""
    loss = draw(st.sampled_from([Logistic, LeastSquares, Multinomial, Supervised]))
    classes = {Logistic: 2, LeastSquares: 0}.get(loss, 3)
    options = {
        "l2": draw(penalties),
        "weights": draw(weights),
        "regulariser": draw(regularisers(method, matrices=loss is Multinomial)),
    }
    if loss is Supervised:
        options["model"] = draw(networks)
    else:
        options["intercept"] = draw(st.booleans())
    return Posed(loss(**options), OfRows(draw(sizes(n)), draw(widths), classes, draw(seeds)))


@st.composite
def saddle(draw: Draw, method: Algorithm, n: int) -> Posed:
    """AUC, adversarial classification, and the bilinear example."""
    kind = draw(st.sampled_from([AUC, Adversarial, Bilinear]))
    options = {
        "l2": draw(penalties),
        "weights": draw(weights),
        "regulariser": draw(regularisers(method)),
    }
    if kind is Bilinear:
        options |= {"convexity": draw(hundredths(0.1, 2)), "concavity": draw(hundredths(0.5, 2))}
        data: Data = OfMatrices(draw(sizes(n)), draw(widths), draw(widths), draw(seeds))
        return Posed(Bilinear(**options), data)
    if kind is Adversarial:
        options["penalty_strength"] = draw(hundredths(0.5, 2))
    elif draw(st.booleans()):
        options["positive_rate"] = draw(hundredths(0.2, 0.8))
    return Posed(kind(**options), OfRows(draw(sizes(n)), draw(widths), 2, draw(seeds)))


bits = st.sampled_from([1, 2, 3, 32])


@st.composite
def personal(draw: Draw, method: Algorithm, n: int) -> Posed:
    """A common network and the clients' own, of one or two architectures and bit-widths."""
    problem = Personal(
        model=draw(networks),
        own=draw(st.none() | networks | st.tuples(networks, networks)),
        bits=draw(bits | st.tuples(bits, bits)),
        keep=draw(st.sampled_from([(-1,), (0,), ()])),
        l2=draw(penalties),
        weights=draw(weights),
    )
    classes = draw(st.integers(2, 3))
    return Posed(problem, OfRows(draw(sizes(n)), draw(widths), classes, draw(seeds)))


@st.composite
def vertical(draw: Draw, method: Algorithm, n: int) -> Posed:
    """All losses; networks where the method trains them, at parties and hub."""
    loss = draw(st.sampled_from(["squared", "logistic", "softmax"]))
    trains = isinstance(method, EGVFLNonlinear) or method.takes_fusion
    network = draw(st.none() | networks) if trains else None
    problem = Vertical(
        loss=loss,
        mean=draw(st.booleans()),
        l2=draw(penalties),
        regulariser=draw(regularisers(method)),
        network=network,
        embedding=2,
        fusion=draw(st.none() | networks) if network and method.takes_fusion else None,
    )
    classes = {"squared": draw(st.sampled_from([0, 2])), "logistic": 2, "softmax": 3}[loss]
    parties = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    return Posed(problem, OfColumns(draw(st.integers(4, 12)), tuple(parties), classes, draw(seeds)))


KINDS: dict[str, Callable[[Algorithm, int], Strategy]] = {
    "smooth": smooth,
    "saddle": saddle,
    "personal": personal,
    "vertical": vertical,
}
