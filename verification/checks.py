"""What must hold of a case: the comparisons, each of which raises `Disagreement`."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fedloom as fl
from fedloom.data.parties import Parties
from fedloom.exchange.in_process import InProcess
from fedloom.measuring.result import Result
from verification.cases import Case
from verification.listings import LISTINGS

Tree = Any
TOLERANCE = 1e-12  # of tests/laws/test_engines_agree.py


class Disagreement(AssertionError):
    """Two ways to the same numbers gave different ones."""

    def __init__(self, check: str, what: str):
        super().__init__(f"{check}: {what}")
        self.check = check


def simulated(case: Case, **options: Any) -> Result:
    """The case on the simulator."""
    settings = {
        "rounds": case.rounds,
        "batch_size": case.batch_size,
        "seed": case.seed,
        "devices": case.devices,
        "lanes": case.lanes,
        "precision": case.precision,
        "metrics": (),
        "progress": False,
    }
    result = fl.simulate(case.method, case.problem, case.data.build(), **settings | options)
    if result.status == "interrupted":  # a simulation takes Ctrl-C for itself, and ends early
        raise KeyboardInterrupt
    return result


def the_same_bits_again(case: Case, result: Result) -> None:
    """A second run of the same program."""
    same_bits("again", result.state, simulated(case).state)


def resumed(case: Case, result: Result) -> None:
    """A run that is stopped, saved, loaded and resumed."""
    with tempfile.TemporaryDirectory() as folder:
        simulated(case, rounds=case.stop).save(Path(folder) / "part")
        whole = simulated(case, resume=fl.load(Path(folder) / "part"))
    same_bits("resume", result.state, whole.state)


def on_one_device(case: Case, result: Result) -> None:
    """The same run without dividing the cohort."""
    same_bits("devices", result.state, simulated(case, devices=1).state)


def over_the_wire(case: Case, result: Result) -> None:
    """The wire engine: states of hub and clients, and bytes."""
    clients = case.data.build()
    with jax.enable_x64(True):
        network = InProcess(
            case.method, case.problem, clients,
            batch_size=case.batch_size, seed=case.seed, precision=case.precision,
        )  # fmt: skip
        for _ in range(case.rounds):
            network.step()
    close("wire", result.state.hub, network.hub, "hub")
    for i, state in enumerate(states_of_clients(case, clients, result)):
        close("wire", state, network.sites[i].state, f"client {i}")
    for name, sent in (("bytes_down", network.bytes_down), ("bytes_up", network.bytes_up)):
        if result.about[name] != sent:
            raise Disagreement("wire", f"{name}: {result.about[name]} and {sent}")


def states_of_clients(case: Case, clients: Any, result: Result) -> list[Tree]:
    """The clients' states in their order, from those of the groups."""
    everyone = list(range(len(clients)))
    if isinstance(clients, Parties):
        groups: list[Any] = [[i] for i in everyone]
    else:
        groups = [members or everyone for _, members in case.problem.groups(clients)]
    states: dict[int, Tree] = {}
    for members, group in zip(groups, result.state.clients, strict=True):
        for place, i in enumerate(members):
            states[i] = jax.tree.map(lambda leaf: leaf[place], group)  # noqa: B023
    return [states[i] for i in everyone]


def by_the_listing(case: Case, result: Result) -> None:
    """The transcription of the paper's listing in NumPy."""
    listing = LISTINGS[case.key]
    with jax.enable_x64(True), np.errstate(all="ignore"):
        for name, got, expected in listing.pairs(case, result):
            compare("listing", name, np.asarray(got), np.asarray(expected), listing.tolerance)


CHECKS: dict[str, Callable[[Case, Result], None]] = {
    "again": the_same_bits_again,
    "resume": resumed,
    "devices": on_one_device,
    "wire": over_the_wire,
    "listing": by_the_listing,
}


def checks_of(case: Case) -> Iterator[str]:
    """Which comparisons a case allows; only bits are promised in single precision."""
    yield from ("again", "resume")
    if case.devices > 1:
        yield "devices"
    if case.precision == "float64":
        yield "wire"
        if case.listed:
            yield "listing"


def same_bits(check: str, one: Tree, other: Tree) -> None:
    """Every array equal to the last bit."""
    for name, a, b in both(check, one, other):
        if a.tobytes() != b.tobytes():
            raise Disagreement(check, f"{name} differs by {gap(a, b):.3g}; the bits must be equal")


def close(check: str, one: Tree, other: Tree, where: str = "") -> None:
    """Every array equal to rounding."""
    for name, a, b in both(check, one, other):
        compare(check, f"{where} {name}".strip(), a, b, TOLERANCE)


def compare(check: str, name: str, a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    """Equal to rounding."""
    if a.shape != b.shape:
        raise Disagreement(check, f"{name} has the shapes {a.shape} and {b.shape}")
    if not np.allclose(a, b, rtol=tolerance, atol=min(tolerance, TOLERANCE), equal_nan=True):
        raise Disagreement(check, f"{name} differs by {gap(a, b):.3g}; allowed: {tolerance:g}")


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference."""
    return float(np.abs(a.astype(float) - b.astype(float)).max(initial=0.0))


def both(check: str, one: Tree, other: Tree) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The arrays of two trees of one structure, by name."""
    (left, structure), right = jax.tree_util.tree_flatten_with_path(one), jax.tree.leaves(other)
    if structure != jax.tree.structure(other):
        raise Disagreement(check, f"structures {structure} and {jax.tree.structure(other)}")
    for (path, a), b in zip(left, right, strict=True):
        yield jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(a), np.asarray(b)
