"""Random cases: a method of the catalogue with all that it is run on."""

from collections.abc import Callable
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from fedloom.algorithms import Compressed, Private, Unreliable
from fedloom.algorithms.catalogue import entry
from fedloom.errors import ParameterError
from fedloom.protocol import Algorithm
from fedloom.rounds.crew import cores
from verification import values
from verification.cases import Case, Data, OfMatrices, OfRows
from verification.listings import LISTINGS
from verification.problems import KINDS, MANY_ROWS, seeds
from verification.values import Strategy, hundredths

Draw = Callable[[Strategy], Any]
LARGE_BATCH = 5_000


@st.composite
def wrapped(draw: Draw, method: Algorithm) -> Algorithm:
    """The method in up to two wrappers; most often in none."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        wrapper = draw(st.sampled_from([Unreliable, Compressed, Private]))
        try:
            if wrapper is Unreliable:
                method = Unreliable(method, draw(hundredths(0, 0.5)), draw(hundredths(0, 0.5)))
            elif wrapper is Compressed:
                method = Compressed(method, draw(values.unbiased | values.biased))
            else:
                at = draw(st.sampled_from(["hub", "client"]))
                clip, noise = draw(hundredths(0.05, 2)), draw(hundredths(0, 0.5))
                method = Private(method, clip, noise, at=at)
        except ParameterError:
            assume(False)
    return method


@st.composite
def batch_sizes(draw: Draw, data: Data, usual: Strategy) -> int | None:
    """What is usual, but large where there are many rows: a pass over them must not take long."""
    size = draw(usual)
    many = isinstance(data, OfRows | OfMatrices) and max(data.sizes) == MANY_ROWS
    return LARGE_BATCH if many and size is not None else size


@st.composite
def cases(draw: Draw, key: str) -> Case:
    """A case for a method; half of those with a transcription are such as it can run."""
    # Hypothesis begins with the simplest case, which is no better than the trials of the laws.
    assume(draw(st.booleans()))
    found, listing = entry(key), LISTINGS.get(key)
    kind = found.cls.takes
    n = draw(st.integers(2, 4 if kind == "vertical" else 6))
    rounds = draw(st.integers(2, 4))
    run = {
        "rounds": rounds,
        "stop": draw(st.integers(1, rounds - 1)),
        "devices": draw(st.integers(1, min(2, cores()))),
        "seed": draw(seeds),
    }
    if listing is not None and draw(st.booleans()):
        fixed = {"optimiser": values.plain, **listing.fields(n)}
        method = draw(values.legal(found.cls, n, fixed))
        problem, data = draw(listing.problem(n))
        run["seed"] = run["seed"] if listing.any_seed else 0
        batch_size = draw(batch_sizes(data, listing.batch_sizes))
        return Case(key, method, problem, data, batch_size, listed=True, **run)
    method = draw(values.legal(found.cls, n, {}))
    assume(method is not None)
    problem, data = draw(KINDS[kind](method, n))
    if kind != "vertical":
        method = draw(wrapped(method))
    batch_size = draw(batch_sizes(data, st.none() | st.integers(1, 16)))
    precision = draw(st.sampled_from(["float64", "float64", "float64", "float32"]))
    return Case(key, method, problem, data, batch_size, precision=precision, **run)
