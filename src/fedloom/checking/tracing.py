"""A method as a program: what its code becomes when it is read, without running it."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from fedloom.checking.case import Case
from fedloom.population import Federation
from fedloom.protocol import Algorithm
from fedloom.rounds import keys, program
from fedloom.rounds.mapping import Plan

_PLAN = Plan(None, None)


class Program(NamedTuple):
    """What was read."""

    text: str  # its operations
    constants: str  # a hash of the numbers in it
    draws: bool  # whether it draws random numbers


def read(case: Case) -> Program:
    """The program of the opening and of a round, read afresh."""

    def play(method: Algorithm, federation: Federation, root: Any) -> Any:
        hub, clients, _ = program.opening(method, federation, root, _PLAN)
        steps = method.round(hub, federation.fed, keys.hub(root, 1))
        return program.drive(steps, method, federation, clients, root, 1, _PLAN)[:3]

    with jax.enable_x64(True):
        closed = jax.make_jaxpr(play)(case.method, case.federation(), keys.root(0))
    digest = hashlib.sha256()
    draws = False
    for piece in _pieces(closed):
        if isinstance(piece, str):
            draws = draws or piece == "random_bits"
        else:
            digest.update(piece)
    return Program(str(closed.jaxpr), digest.hexdigest(), draws)


def _pieces(closed: Any) -> Iterator[str | bytes]:
    """The names of all operations, and the bytes of all numbers between them."""
    if isinstance(closed, core.ClosedJaxpr):
        for constant in closed.consts:
            yield _bytes(constant)
        closed = closed.jaxpr
    for equation in closed.eqns:
        yield equation.primitive.name
        for value in equation.invars:
            if isinstance(value, core.Literal):
                yield _bytes(value.val)
        for parameter in jax.tree.leaves(equation.params, is_leaf=_is_program):
            if _is_program(parameter):
                yield from _pieces(parameter)


def _bytes(value: Any) -> bytes:
    if hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value).tobytes()


def _is_program(value: Any) -> bool:
    return isinstance(value, core.ClosedJaxpr | core.Jaxpr)
