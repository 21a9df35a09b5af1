"""A method as a program: what its code becomes when JAX traces it, without running it."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from fedloom import draws
from fedloom.checking.case import Case
from fedloom.population import Federation
from fedloom.protocol import Algorithm, at_round
from fedloom.rounds import program
from fedloom.rounds.parts import Plan

_PLAN = Plan(None, None)

Frames = tuple[tuple[str, int, str], ...]  # file, line and function


class Step(NamedTuple):
    """An operation of a program."""

    name: str  # of the operation, as in "mul"
    numbers: tuple[Any, ...]  # that the code wrote into it: literals and constant arrays
    frames: Frames  # the innermost first


class Program(NamedTuple):
    """What was read."""

    steps: tuple[Step, ...]  # its operations, in order

    @property
    def digest(self) -> str:
        """A hash of all operations and numbers."""
        found = hashlib.sha256()
        for step in self.steps:
            found.update(step.name.encode())
            for number in step.numbers:
                found.update(as_bytes(number))
        return found.hexdigest()

    @property
    def draws(self) -> list[Step]:
        """The operations that draw random numbers."""
        return [step for step in self.steps if step.name == "random_bits"]


def read(case: Case) -> Program:
    """The program of the opening and of a round, read afresh."""

    def play(method: Algorithm, federation: Federation, root: Any) -> Any:
        hub, clients, _ = program.opening(method, federation, root, _PLAN)
        method = at_round(method, 1)
        steps = method.round(hub, federation.fed, draws.hub_key(root, 1))
        return program.drive(steps, method, federation, clients, root, 1, _PLAN)[:3]

    with jax.enable_x64(True):
        closed = jax.make_jaxpr(play)(case.method, case.federation(), draws.key(0))
    return Program(tuple(_steps(closed, {})))


def _steps(closed: Any, known: dict[Any, Any], around: Frames = ()) -> Iterator[Step]:
    """All operations; `known` are the variables that stand for constants."""
    jaxpr = closed
    if isinstance(closed, core.ClosedJaxpr):
        jaxpr = closed.jaxpr
        known = known | dict(zip(jaxpr.constvars, closed.consts, strict=True))
    for equation in jaxpr.eqns:
        numbers = []
        for value in equation.invars:
            if isinstance(value, core.Literal):
                numbers.append(value.val)
            elif value in known:
                numbers.append(known[value])
        frames = (*_frames(equation), *around)
        yield Step(equation.primitive.name, tuple(numbers), frames)
        for inner in jax.tree.leaves(equation.params, is_leaf=_is_program):
            if _is_program(inner):
                handed = _handed_on(equation, inner, known)
                for step in _steps(inner, handed, frames):
                    # JAX keeps what it has read of its own functions, with the lines of whoever
                    # called them first; who calls them here is known outside.
                    kept = equation.primitive.name in ("jit", "pjit")
                    yield step._replace(frames=frames) if kept else step


def _handed_on(equation: Any, inner: Any, known: dict[Any, Any]) -> dict[Any, Any]:
    """The constants that an operation hands to a program inside it, where all its inputs go."""
    jaxpr = inner.jaxpr if isinstance(inner, core.ClosedJaxpr) else inner
    if len(jaxpr.invars) != len(equation.invars):
        return {}
    pairs = zip(jaxpr.invars, equation.invars, strict=True)
    return {
        inside: known[outside]
        for inside, outside in pairs
        if not isinstance(outside, core.Literal) and outside in known
    }


def _frames(equation: Any) -> Frames:
    found = equation.source_info.traceback
    if found is None:
        return ()
    return tuple((f.file_name, f.line_num, f.function_name) for f in found.frames)


def as_bytes(value: Any) -> bytes:
    """The bytes of a number, an array or a key."""
    if hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value).tobytes()


def _is_program(value: Any) -> bool:
    return isinstance(value, core.ClosedJaxpr | core.Jaxpr)
