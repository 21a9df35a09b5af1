"""A graph in training: with dropout, and with batch norms that go by their batch."""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from fedloom.models.dropout import row_keys
from fedloom.models.graph.interpreting import run
from fedloom.models.graph.operations import TRAINED
from fedloom.models.graph.operations.training import ROWS, Step
from fedloom.models.graph.program import Program, signature_of
from fedloom.rows import Drawn
from fedloom.types import Array, Held

_RATES = ("p", "dropout_p", "dropout")  # what ATen calls the share that is dropped


def differs(program: Program, drawn: Drawn) -> bool:
    """Whether training on a batch computes anything else than evaluation."""
    return local_norms(program) or (drawn.key is not None and draws(program))


def local_norms(program: Program) -> bool:
    """Whether batch norms go by the statistics of their batch."""
    return program.norm == "local"


@functools.cache
def draws(program: Program) -> bool:
    """Whether the network has dropout."""
    given = [
        signature_of(node.operation, node.name).bind(*node.args, **dict(node.kwargs)).arguments
        for node in program.nodes
        if node.operation in TRAINED
    ]
    return any(
        named.get("train") is not False and any(named.get(rate, 0) != 0 for rate in _RATES)
        for named in given
    )


def outputs(program: Program, arrays: Mapping[str, Array], x: Held, drawn: Drawn) -> Array:
    """What the program returns in training, for the rows of a batch."""
    keys = None if drawn.key is None else row_keys(drawn.key, len(x))

    def of_one(row: Array, key: Array | None, counts: Array | None) -> tuple[Array, list[Array]]:
        step = Step(key, counts, local_norms(program))
        return run(program, arrays, row[None], step=step)[0], step.terms

    mapped = jax.vmap(of_one, out_axes=(0, None), axis_name=ROWS)
    found, terms = mapped(jnp.asarray(x), keys, drawn.counts)
    return _with_slopes_of(found, sum(terms[1:], start=terms[0])) if terms else found


@jax.custom_vjp
def _with_slopes_of(found: Array, term: Array) -> Array:
    """The outputs as they are; whoever differentiates what is made of them gets term's slope too.

    The loss stays that of the outputs, so that values and line searches know nothing of the term.
    """
    return found


def _forward(found: Array, term: Array) -> tuple[Array, Array]:
    return found, term


def _backward(term: Array, slope: Array) -> tuple[Array, Array]:
    return slope, jnp.ones_like(term)


_with_slopes_of.defvjp(_forward, _backward)
