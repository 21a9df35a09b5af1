"""The vertical family, on the squared loss with the penalty (l2 / 2) |x|^2."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedloom.measuring.result import Result
from fedloom.operators.compressors import RandK, TopK
from fedloom.problems import L1, Vertical, Zero
from papers import splitting, vertical, vertical_baselines
from verification.cases import Case, OfColumns
from verification.listings.base import Listing, Pair, only
from verification.problems import Posed, seeds
from verification.values import Strategy, hundredths, shares

NONE = st.just(Zero())


def posed(regularisers: Strategy) -> Callable[[int], Strategy]:
    """Least squares over parties."""

    @st.composite
    def of(draw: Callable[[Strategy], Any], n: int) -> Posed:
        problem = Vertical(l2=draw(hundredths(0.05, 0.5)), regulariser=draw(regularisers))
        widths = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
        return Posed(problem, OfColumns(draw(st.integers(4, 12)), tuple(widths), 0, draw(seeds)))

    return of


def columns(case: Case) -> vertical.Columns:
    """The case's data as the transcriptions have them."""
    data = vertical.Columns(case.data.rows, case.data.widths, case.problem.l2)
    data.blocks, data.b = case.data.parts()
    return data


def listing(
    transcription: Callable[[Case, vertical.Columns], Any], *, drawn: bool = False,
    regularisers: Strategy = NONE, **fixed: Strategy,
) -> Listing:  # fmt: skip
    """Compare the model: `transcription(case, data)` gives the parts of all parties."""
    common = {"step": hundredths(0.02, 0.2), **only(beta_trick=False, iterate="last")}

    def pairs(case: Case, result: Result) -> Iterator[Pair]:
        names = [f"party {i}" for i in range(len(case.data.widths))]
        got = np.concatenate([np.ravel(result.model[name]) for name in names])
        yield Pair("model", got, np.concatenate(transcription(case, columns(case))))

    # The transcriptions that draw, draw with the seed 0.
    return Listing(lambda n: common | fixed, posed(regularisers), pairs, any_seed=not drawn)


def egvfl(case: Case, data: vertical.Columns) -> Any:
    """The last iterates, or the mean of the half-iterates."""
    return vertical.egvfl(data, case.method.step, case.rounds)[
        0 if case.method.iterate == "last" else 3
    ]


def compressed(case: Case, data: vertical.Columns) -> Any:
    """With RandK."""
    m, q = case.method, case.method.compressor
    options = (m.refresh, q.per_cent, q.shared, m.reference)
    return vertical.compressed(data, m.step, case.rounds, *options)[0]


def error_feedback(case: Case, data: vertical.Columns) -> Any:
    """With TopK."""
    m = case.method
    per_cent = m.compressor.per_cent
    return vertical.error_feedback(data, m.step, case.rounds, m.refresh, per_cent)[0]


def coordinate(case: Case, data: vertical.Columns) -> Any:
    """Some rows and columns."""
    m = case.method
    options = (m.refresh, m.rows, m.columns, m.shared)
    return vertical.coordinate(data, m.step, case.rounds, *options)[0]


def partial(case: Case, data: vertical.Columns) -> Any:
    """Some parties."""
    m = case.method
    cohort = data.n if m.cohort is None else m.cohort
    return vertical.partial(data, m.step, case.rounds, cohort)[0]


def proximal(case: Case, data: vertical.Columns) -> Any:
    """With g = l1 |x|_1."""
    l1 = case.problem.regulariser.strength
    return vertical.proximal(data, case.method.step, case.rounds, l1)


def plain(transcription: Callable, *names: str) -> Callable[[Case, vertical.Columns], Any]:
    """A transcription that takes the step and these fields of the method, then the rounds."""

    def parts(case: Case, data: vertical.Columns) -> Any:
        options = [getattr(case.method, name) for name in names]
        return transcription(data, *options, case.rounds)

    return parts


def agd(case: Case, data: vertical.Columns) -> Any:
    """With momentum."""
    m = case.method
    return [vertical.descent(data, m.step, case.rounds, m.momentum)]


def split(transcription: Callable, *names: str) -> Listing:
    """Split training without networks, on batches; `names` are further fields of the method."""

    def pairs(case: Case, result: Result) -> Iterator[Pair]:
        m, world = case.method, splitting.Summed(columns(case))
        run = (m.lr, case.rounds, case.batch_size)
        kept = [m.compressor.per_cent] if hasattr(m, "compressor") else []
        steps = [getattr(m, name) for name in names]
        _, found = transcription(world, *run, *kept, *steps, seed=case.seed)
        got = [np.ravel(result.model[f"party {i}"]) for i in range(len(found))]
        yield Pair("model", np.concatenate(got), np.concatenate(found))

    fields = {"lr": hundredths(0.01, 0.03), "compressor": st.builds(TopK, shares)}
    batches = st.none() | st.integers(1, 16)
    return Listing(lambda n: fields, posed(NONE), pairs, batch_sizes=batches)


ITERATES = st.sampled_from(["last", "average"])
CHANCES = hundredths(0.1, 1)
LISTINGS: dict[str, Listing] = {
    "egvfl": listing(egvfl, iterate=ITERATES),
    "egvfl_nonlinear": listing(egvfl, iterate=ITERATES),  # without a network it is the same
    "egvfl_compressed": listing(
        compressed, drawn=True, refresh=CHANCES, compressor=st.builds(RandK, shares, st.booleans())
    ),
    "egvfl_error_feedback": listing(
        error_feedback, drawn=True, refresh=CHANCES, compressor=st.builds(TopK, shares),
        **only(reference="old"),
    ),
    "egvfl_partial": listing(partial, drawn=True, **only(refresh=None, reference="old")),
    "egvfl_coordinate": listing(coordinate, drawn=True, refresh=CHANCES, **only(reference="old")),
    "egvfl_slacks": listing(plain(vertical.slacks, "step")),
    "egvfl_proximal": listing(proximal, regularisers=st.builds(L1, hundredths(0, 0.3))),
    "egvfl_augmented": listing(plain(vertical.augmented, "step", "rho")),
    "egvfl_dual": listing(plain(vertical.dual, "step")),
    "vertical_gd": listing(plain(lambda *options: [vertical.descent(*options)], "step")),
    "vertical_agd": listing(agd, momentum=hundredths(0, 0.9)),
    "vertical_cg": listing(
        lambda case, data: [vertical_baselines.conjugate_gradients(data, case.rounds)]
    ),
    "vertical_ogda": listing(
        lambda case, data: [vertical_baselines.optimistic(data, case.method.step, case.rounds)[0]]
    ),
    "sharing_admm": listing(
        plain(lambda *options: vertical.sharing_admm(*options)[0], "rho"), rho=hundredths(0.5, 3)
    ),
    "split_training": split(splitting.split_training),
    "cvfl": split(splitting.cvfl, "local_steps"),
    "ef_vfl": split(splitting.ef_vfl),
}  # fmt: skip
