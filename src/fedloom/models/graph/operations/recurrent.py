"""Recurrent layers as scans over the places of a sequence: LSTM, GRU and plain ones.

The products with the inputs of all places are taken at once; the loop keeps only what depends on
the state.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.errors import DataError
from fedloom.models.graph.operations.arithmetic import Table
from fedloom.models.graph.operations.training import Step, thinned
from fedloom.types import Array

State = tuple[Array, ...]  # h, and of an LSTM the cell's own as well
# (inputs of a place, products with the state, the state before) -> the state after
Cell = Callable[[Array, Array, State], State]


def _lstm_cell(inputs: Array, products: Array, state: State) -> State:
    i, f, g, o = jnp.split(inputs + products, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


def _gru_cell(inputs: Array, products: Array, state: State) -> State:
    r_in, z_in, n_in = jnp.split(inputs, 3, axis=-1)
    r_state, z_state, n_state = jnp.split(products, 3, axis=-1)
    r, z = jax.nn.sigmoid(r_in + r_state), jax.nn.sigmoid(z_in + z_state)
    return ((1 - z) * jnp.tanh(n_in + r * n_state) + z * state[0],)


def _plain_cell(activation: Callable[[Array], Array]) -> Cell:
    return lambda inputs, products, state: (activation(inputs + products),)


def _direction(
    cell: Cell, x: Array, state: State, weights: Sequence[Array], reverse: bool
) -> tuple[State, Array]:
    """One layer in one direction; x is (places, rows, features)."""
    w_in, w_state, *biases = weights
    b_in, b_state = biases if biases else (0, 0)
    inputs = x @ w_in.T + b_in

    def step(before: State, at: Array) -> tuple[State, Array]:
        after = cell(at, before[0] @ w_state.T + b_state, before)
        return after, after[0]

    return lax.scan(step, state, inputs, reverse=reverse)


def _layers(
    step: Step | None,
    cell: Cell,
    x: Array,
    state: State,
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    dropout: float,
) -> tuple[Array, State]:
    directions, each = 1 + bidirectional, 4 if has_biases else 2
    if len(params) != num_layers * directions * each:
        raise DataError("arrays with projections, or a wrong number of them, are not known here.")
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    ends = []
    for layer in range(num_layers):
        if layer > 0:
            x = thinned(step if train else None, x, dropout)
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            begun = tuple(part[at] for part in state)
            weights = params[at * each : (at + 1) * each]
            end, seen = _direction(cell, x, begun, weights, direction == 1)
            ends.append(end)
            outputs.append(seen)
        x = outputs[0] if directions == 1 else jnp.concatenate(outputs, -1)
    last = tuple(jnp.stack(parts) for parts in zip(*ends, strict=True))
    return (jnp.swapaxes(x, 0, 1) if batch_first else x), last


def _lstm(
    step: Step | None,
    x: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, Array, Array]:
    y, (h, c) = _layers(
        step, _lstm_cell, x, tuple(hx), params, has_biases, num_layers, train, bidirectional,
        batch_first, dropout,
    )  # fmt: skip
    return y, h, c


def _of_one_state(cell: Cell) -> Callable[..., Any]:
    def layers(
        step: Step | None,
        x: Array,
        hx: Array,
        params: Sequence[Array],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Array, Array]:
        y, (h,) = _layers(
            step, cell, x, (hx,), params, has_biases, num_layers, train, bidirectional,
            batch_first, dropout,
        )  # fmt: skip
        return y, h

    return layers


TRAINED: Table = {
    "aten.lstm.input": _lstm,
    "aten.gru.input": _of_one_state(_gru_cell),
    "aten.rnn_tanh.input": _of_one_state(_plain_cell(jnp.tanh)),
    "aten.rnn_relu.input": _of_one_state(_plain_cell(jax.nn.relu)),
}
