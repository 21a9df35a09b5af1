"""What Hypothesis may put into the fields of methods: legal by the field's rule, of a sane size.

A field is drawn from a range under its name where there is one below. Any other field, such as that
of a method added later, gets the values of a small pool that its rule allows.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from fedloom.algorithms import SAGA, SGDA, Exact, Quantisation
from fedloom.errors import ParameterError
from fedloom.operators.compressors import Identity, LowRank, Natural, RandK, RandomRounding, TopK
from fedloom.optimisers import SGD, Adam, AdamW, Momentum

Strategy = st.SearchStrategy[Any]


def hundredths(low: float, high: float) -> Strategy:
    """Numbers with two decimals, which print and shrink well."""
    return st.integers(round(100 * low), round(100 * high)).map(lambda k: k / 100)


def steps(low: int = 1, high: int = 4) -> Strategy:
    """Small counts."""
    return st.integers(low, high)


shares = st.sampled_from([1, 30, 50, 100])  # per cent
unbiased: Strategy = st.one_of(
    st.builds(RandK, shares, shared=st.booleans()),
    st.builds(RandomRounding, st.sampled_from([1, 7, 20])),
    st.just(Natural()),
    st.just(Identity()),
)
biased: Strategy = st.one_of(st.builds(TopK, shares), st.builds(LowRank, steps(1, 2)))
accuracies = st.none() | st.sampled_from([0.01, 0.1])
solvers: Strategy = st.one_of(
    st.builds(SGDA, lr=hundredths(0.02, 0.1), epochs=steps(1, 2), accuracy=accuracies),
    st.builds(Exact, newton_steps=steps(1, 2)),
    st.builds(SAGA, sigma=st.none() | hundredths(0.02, 0.1), epochs=steps(1, 2)),
)
quantisations: Strategy = st.builds(
    Quantisation,
    bits=st.sampled_from([None, 1, 2, 3, 32]),
    pull=hundredths(0, 0.1),
    pull_growth=st.sampled_from([1.0, 1.1]),
    centre_lr=hundredths(0, 0.1),
    sharpness=st.none() | hundredths(1, 5),
    centre_sign=st.sampled_from(["corrected", "released"]),
    per_cell=st.booleans(),
    weight_bound=st.none() | hundredths(0.1, 1),
    centre_bound=st.none() | hundredths(0.01, 1),
    freeze_after=st.none() | steps(0, 3),
    tuning_centre_lr=hundredths(0, 0.05),
)

quantisations |= st.builds(
    Quantisation,
    bits=st.sampled_from([2, 3, 32]),
    training=st.sampled_from(["straight-through", "lsq"]),
    centre_lr=hundredths(0, 0.1),
    freeze_after=st.none() | steps(0, 3),
)

plain: Strategy = st.just(SGD())  # the steps of the papers' listings
clips = st.none() | hundredths(0.1, 2)
optimisers: Strategy = st.one_of(
    plain,
    st.builds(SGD, weight_decay=st.none() | hundredths(0, 0.1), clip=clips),
    st.builds(Momentum, momentum=hundredths(0, 0.9), nesterov=st.booleans(), clip=clips),
    st.builds(Adam, b1=hundredths(0, 0.9), b2=hundredths(0.5, 0.99), eps=st.just(0.01)),
    st.builds(AdamW, b1=hundredths(0, 0.9), eps=st.just(0.01), weight_decay=hundredths(0, 0.1)),
)

# Step sizes that are stable on the data of `cases`, so that rounding does not grow.
RANGES: Mapping[str, tuple[float, float]] = {
    "lr": (0.01, 0.3),
    "dual_lr": (0.01, 0.3),
    "outer_lr": (0.01, 0.2),
    "personal_lr": (0.01, 0.3),
    "head_lr": (0.01, 0.3),
    "common_lr": (0.05, 0.5),
    "weight_lr": (0.01, 0.3),
    "server_lr": (0.3, 1.5),
    "server_dual_lr": (0.3, 1.5),
    "step": (0.02, 0.2),
    "beta": (0.2, 1.5),
    "dual_beta": (0.2, 1.5),
    "gamma": (1, 8),
    "mu": (0.1, 1),
    "rho": (0.5, 3),
    "penalty": (0.5, 3),
    "alpha": (0, 1),
    "alpha_lr": (0, 1),
    "mixing": (0.3, 1),
    "q": (0, 3),
    "relaxation": (0.5, 1.9),
    "shrink": (1, 4),
    "decay": (0.5, 1),
    "difference": (0.01, 0.1),
    "weight_floor": (0, 0.6),
}
STRATEGIES: Mapping[str, Strategy] = {
    "local_steps": steps() | st.sampled_from(["1 epoch", "2 epochs"]),
    "personal_steps": steps() | st.sampled_from(["1 epoch", "2 epochs"]),
    "head_steps": steps() | st.sampled_from(["1 epoch", "2 epochs"]),
    "own": st.sampled_from(["bias", "weights", "^0"]),
    "solver": solvers,
    "optimiser": optimisers,
    "quantise": st.none() | quantisations,
    "accuracy": accuracies,
    "stragglers": st.sampled_from([0, 30, 100]),
    "rows": shares,
    "columns": shares,
}
_POOL = (False, True, 1, 2, 3, 0.3, 0.7, 1.0)


def of_field(field: dataclasses.Field, cls: Any, clients: int) -> Strategy:
    """What a field of a method may be in a federation of so many clients."""
    rule, none = field.metadata["rule"], st.nothing()
    if rule.holds(None):
        none = st.none()
    if field.name == "cohort":
        return none | st.integers(1, clients)
    if field.name == "attendance":
        one = hundredths(0.2, 1)
        return none | one | st.tuples(*[one] * clients)
    if field.name == "compressor":
        return (unbiased | biased).filter(rule.holds)
    if "enum" in rule.schema:
        return st.sampled_from(list(rule.schema["enum"]))
    if field.name in STRATEGIES:
        return STRATEGIES[field.name].filter(rule.holds)
    if field.name in RANGES and field.name in cls.__leaves__:
        return none | hundredths(*RANGES[field.name]).filter(rule.holds)
    kinds = float if field.name in cls.__leaves__ else (bool, int)
    return none | st.sampled_from([v for v in _POOL if isinstance(v, kinds) and rule.holds(v)])


@st.composite
def legal(
    draw: Callable[[Strategy], Any], cls: Any, clients: int, fixed: Mapping[str, Strategy]
) -> Any:
    """A method with fields drawn by their rules, or from `fixed` where it names them.

    The few combinations that a class itself refuses give None.
    """
    options = {
        field.name: draw(fixed.get(field.name, of_field(field, cls, clients)))
        for field in dataclasses.fields(cls)
    }
    try:
        return cls(**options)
    except ParameterError:
        return None
