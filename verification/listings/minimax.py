"""The minimax family, on AUC with linear scores and g = l1 |w|_1."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedloom.algorithms import SGDA
from fedloom.measuring.result import Result
from fedloom.problems import AUC, L1
from papers import minimax, minimax_baselines
from papers.minimax import AUCClients, Drawn
from verification.cases import Case, OfRows
from verification.listings.base import Listing, Pair, only
from verification.problems import Posed, seeds, sizes, widths
from verification.values import Strategy, accuracies, hundredths, steps


@st.composite
def posed(draw: Callable[[Strategy], Any], n: int) -> Posed:
    """AUC, sparse."""
    problem = AUC(regulariser=L1(draw(hundredths(0, 0.1))))
    return Posed(problem, OfRows(draw(sizes(n)), draw(widths), 2, draw(seeds)))


def start(case: Case) -> tuple[AUCClients, Drawn]:
    """What every transcription takes first."""
    clients = AUCClients(case.data.build(), case.problem.regulariser.strength)
    return clients, Drawn(clients, case.batch_size, case.seed)


def vector(model: Any) -> np.ndarray:
    """The model in the order of the transcriptions."""
    return np.concatenate([model["bias"], model["w"]])


def given(case: Case, names: tuple[str, ...]) -> dict[str, Any]:
    """The method's fields, which the transcriptions name alike."""
    return {name: getattr(case.method, name) for name in names} | {"rounds": case.rounds}


def both_blocks(transcription: Callable, *names: str) -> Callable:
    """Compare the model and the dual."""

    def pairs(case: Case, result: Result) -> Iterator[Pair]:
        options = given(case, ("lr", "dual_lr", *names))
        u, alpha = transcription(*start(case), **options)
        yield from of_hub(result, u, alpha)

    return pairs


def of_hub(result: Result, u: np.ndarray, alpha: np.ndarray) -> Iterator[Pair]:
    """The model and the hub's dual."""
    hub = result.state.hub
    yield Pair("model", vector(result.model), u)
    yield Pair("hub.y", (hub.point if hasattr(hub, "point") else hub).y, alpha)


def local_sgda(case: Case, result: Result) -> Iterator[Pair]:
    """Both blocks, with g by its proximal map or by subgradients."""
    options = given(case, ("lr", "dual_lr", "local_steps", "cohort"))
    sub = case.method.regularise == "subgradient"
    yield from of_hub(result, *minimax.local_sgda(*start(case), sub=sub, **options))


def fed_norm_sgda(case: Case, result: Result) -> Iterator[Pair]:
    """Both blocks, after whole passes over the own rows."""
    options = given(case, ("lr", "dual_lr", "cohort"))
    epochs = int(case.method.local_steps.split()[0])
    yield from of_hub(result, *minimax.fed_norm_sgda(*start(case), epochs=epochs, **options))


def ffmdr(case: Case, result: Result) -> Iterator[Pair]:
    """The model and the clients' points, by stochastic descent ascent."""
    consensus = case.key == "ffmdr_consensus"
    names = ("beta", "solver", "cohort", *(() if consensus else ("server_prox",)))
    z, w, y, _ = minimax.ffmdr(*start(case), consensus=consensus, **given(case, names))
    (state,) = result.state.clients
    yield Pair("model", vector(result.model), z)
    yield Pair("client.point", state.point.x if consensus else state.point, w)
    yield Pair("client.dual", state.point.y if consensus else state.dual, y)


def listing(pairs: Callable, **fixed: Strategy) -> Listing:
    """A listing of this family; its transcriptions draw batches always."""
    common = {"local_steps": steps(), **only(regularise="prox")}
    return Listing(
        lambda n: common | fixed, posed, pairs, batch_sizes=st.integers(1, 8), tolerance=1e-11
    )


SOLVER = st.builds(SGDA, lr=hundredths(0.02, 0.1), epochs=steps(1, 2), accuracy=accuracies)
AVERAGED = ("local_steps", "momentum", "dual_momentum")
LISTINGS: dict[str, Listing] = {
    "ffmdr": listing(ffmdr, solver=SOLVER, **only(attendance=None)),
    "ffmdr_consensus": listing(ffmdr, solver=SOLVER, **only(attendance=None, dual_beta=None)),
    "local_sgda": listing(local_sgda, regularise=st.sampled_from(["prox", "subgradient"])),
    "local_sgda_plus": listing(both_blocks(minimax.fedsgda_plus, "local_steps", "snapshot_every")),
    "fedsgda_plus": listing(
        both_blocks(
            minimax.fedsgda_plus, "local_steps", "snapshot_every", "server_lr", "server_dual_lr"
        )
    ),
    "momentum_local_sgda": listing(
        both_blocks(minimax.momentum_local_sgda, *AVERAGED, "averaging")
    ),
    "fedsgda_m": listing(both_blocks(minimax.fedsgda_m, *AVERAGED)),
    "fed_norm_sgda": listing(
        fed_norm_sgda,
        local_steps=st.sampled_from(["1 epoch", "2 epochs"]),
        **only(server_lr=None, server_dual_lr=None),
    ),
    "codasca": listing(
        both_blocks(minimax.codasca, "local_steps", "gamma", "stage_rounds", "shrink", "cohort"),
        gamma=hundredths(1, 8),
        stage_rounds=steps(1, 3),
        **only(server_lr=1.0),
    ),
    "fednest": listing(both_blocks(minimax.fednest, "local_steps", "inner_rounds", "cohort")),
    "optimistic_local_sgda": listing(
        both_blocks(minimax_baselines.optimistic_local_sgda, "local_steps", "cohort")
    ),
    "fess_gda": listing(
        both_blocks(
            minimax_baselines.fess_gda,
            "local_steps",
            "cohort",
            "smoothing",
            "tracking",
            "server_lr",
            "server_dual_lr",
        )
    ),
    "fedualex": listing(
        both_blocks(minimax_baselines.fedualex, "local_steps", "cohort", "server_lr")
    ),
}
