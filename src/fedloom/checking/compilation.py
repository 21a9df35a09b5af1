"""New numbers need no new program, and several of them fit into one."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.checking.authors import line_of
from fedloom.checking.case import Case
from fedloom.checking.verdicts import BrokenLawError, InapplicableError, close
from fedloom.errors import FedloomError
from fedloom.protocol import Algorithm
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Tree

_PLAN = Plan(None, None)


def real_parameters(method: Any) -> list[str]:
    """The fields of a method that hold a real number other than zero.

    Those of an object in a field, such as an optimiser or a schedule, follow its name and a dot.
    """
    found = []
    for field in dataclasses.fields(method):
        value = getattr(method, field.name)
        if field.metadata.get("static"):  # and its author says that it is a constant
            continue
        if isinstance(value, float) and value:
            found.append(field.name)
        elif hasattr(type(value), "__parametrised__"):
            found += [f"{field.name}.{name}" for name in real_parameters(value)]
    return found


def with_other_numbers(method: Any, names: Iterable[str]) -> Any:
    """The method with other values of these fields, as far as their rules allow."""
    for name in names:
        outer, _, inner = name.partition(".")
        value = getattr(method, outer)
        if inner:
            others = [with_other_numbers(value, [inner])]
        else:
            others = [value / 2, value * 0.9, value * 1.1]
        for other in others:
            try:
                method = dataclasses.replace(method, **{outer: other})
                break
            except FedloomError:
                continue
    return method


def _value(method: Any, name: str) -> float:
    return functools.reduce(getattr, name.split("."), method)


def new_numbers_need_no_new_program(case: Case) -> str:
    """Other float parameters, another seed and more rounds run on the same compiled program."""
    case.simulate()  # compiles
    names = real_parameters(case.method)
    more = {"seed": case.seed + 5, "rounds": case.rounds + 3}
    if not _compiles(case, case.method, **more):
        guilty = [n for n in names if _compiles(case, with_other_numbers(case.method, [n]))]
        if not guilty:
            return ", ".join([*names, "seed, rounds"])
        name = guilty[0]
        other = with_other_numbers(case.method, [name])
        raise BrokenLawError(
            f"{name} = {_value(other, name)!r} in the place of {_value(case.method, name)!r} "
            f"needs a new program. Annotate it as `{name.split('.')[-1]}: float`, and compute with "
            f"jnp",
            line=line_of(type(case.method).round),
        )
    raise BrokenLawError(
        "another seed or number of rounds needs a new program",
        line=line_of(type(case.method).round),
    )


def _compiles(case: Case, method: Algorithm, **options: Any) -> bool:
    with _readings(type(method)) as readings:
        case.simulate(method=method, **options)
    return bool(readings)


@contextlib.contextmanager
def _readings(cls: type[Algorithm]) -> Iterator[list[int]]:
    """Count how often the code of a round is traced, which happens once for each program."""
    readings: list[int] = []
    original, own = cls.round, "round" in vars(cls)  # or it is that of a class above

    def noted(*arguments: Any) -> Any:
        readings.append(1)
        return original(*arguments)

    cls.round = noted  # type: ignore[method-assign]
    try:
        yield readings
    finally:
        if own:
            cls.round = original  # type: ignore[method-assign]
        else:
            del cls.round


def a_sweep_is_a_vmap(case: Case) -> str:
    """Runs with several values of the float parameters are one mapped program."""
    method: Any = case.method
    names = [name for name in real_parameters(method) if name in method.__leaves__]
    if not names:
        raise InapplicableError("it has no float parameter that is not zero")
    other = with_other_numbers(method, names)
    alone = case.simulate(method=other).state.hub

    def final_hub(values: dict[str, Array]) -> Tree:
        tried = dataclasses.replace(method, **values)
        root = draws.key(case.seed)
        hub, clients, _ = program.opening(tried, federation, root, _PLAN)
        start, stop = jnp.int32(0), jnp.int32(case.rounds)
        return program.rounds(tried, federation, hub, clients, root, start, stop, _PLAN).hub

    with jax.enable_x64(True):
        federation = case.federation()
        both = {n: jnp.array([getattr(method, n), getattr(other, n)]) for n in names}
        swept = jax.jit(jax.vmap(final_hub))(both)
        mapped = jax.tree.map(lambda leaf: leaf[1], swept)
    close(
        "mapped over its parameters, the method ends elsewhere than alone (expected)",
        alone,
        mapped,
        tolerance=(1e-9, 1e-12),
        root="hub",
        where=f"with {', '.join(f'{n} = {getattr(other, n):g}' for n in names)}",
    )
    return f"over {', '.join(names)}"
