"""What the methods for split networks share.

    min_{w, x}  l(fusion(w, [h_1(x_1), ..., h_n(x_n)]), b) + (l2 / 2) (|w|^2 + sum_i |x_i|^2)

Party i holds its columns and the network x_i, which makes an embedding h_i(x_i) of each row. The
hub is the label party and holds the fusion network w. A round is about one batch of rows: the hub
sends a seed, from which all parties draw the same ones. Without a fusion network the parties' parts
A_i x_i of the scores are summed, as in all vertical problems, and w is empty.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedloom import draws, optimisers
from fedloom.operators.compressors import Compressor
from fedloom.optimisers import Optimiser
from fedloom.oracles import PartyOracle, VerticalFedView
from fedloom.types import Array, Scalar

Memory = tuple[Array, ...]  # what an optimiser remembers, array by array, as a state can be saved


class SplitHub(NamedTuple):
    """The fusion network w, and what its optimiser remembers."""

    model: Array
    memory: Memory


class SplitParty(NamedTuple):
    """A party's network x_i, what its optimiser remembers, and the seed of the round's batch."""

    share: Array
    memory: Memory
    seed: Array


def optimiser_param() -> Any:
    """A field for the optimiser of hub and parties."""
    return optimisers.optimiser_param("hub and parties keep from round to round")


def first_hub(fed: VerticalFedView, key: Array, optimiser: Optimiser) -> SplitHub:
    """A fresh fusion network."""
    model = fed.init_fusion(key)
    return SplitHub(model, tuple(jax.tree.leaves(optimiser.begin(model))))


def first_party(f: PartyOracle, key: Array, optimiser: Optimiser) -> SplitParty:
    """A fresh network."""
    share = f.start(key)
    return SplitParty(share, tuple(jax.tree.leaves(optimiser.begin(share))), seed_of(key))


def moved(
    w: Array, gradient: Array, memory: Memory, optimiser: Optimiser, lr: Scalar
) -> tuple[Array, Memory]:
    """A step of a network: its arrays after it, and what the optimiser remembers."""
    structure = jax.tree.structure(jax.eval_shape(optimiser.begin, w))
    w, after = optimiser.move(w, gradient, jax.tree.unflatten(structure, memory), lr)
    return w, tuple(jax.tree.leaves(after))


def seed_of(key: Array) -> Array:
    """A key as it travels: two words."""
    return jax.random.key_data(key)


def key_of(seed: Array) -> Array:
    """The key of a seed."""
    return jax.random.wrap_key_data(seed, impl=draws.IMPL)


def common_key(compressor: Compressor, seed: Array, own: Array) -> Array:
    """The key of a compressor's draws: the round's where all ends draw alike, else one's own."""
    return draws.fold(key_of(seed), 1) if compressor.shared else own


def labels_of(fed: VerticalFedView, rows: Array | slice) -> Array:
    """The labels of some rows."""
    return jnp.asarray(fed.labels)[rows]


def slopes(fed: VerticalFedView, model: Array, parts: Array, labels: Array) -> tuple[Array, Array]:
    """The batch's gradients, in the fusion network with its penalty, and in the parties' parts."""
    own, of_parts = jax.grad(fed.rows_loss, (0, 1))(model, parts, labels)
    return own + fed.problem.l2 * model, of_parts


def moved_hub(hub: SplitHub, slope: Array, optimiser: Optimiser, lr: Scalar) -> SplitHub:
    """A step of the fusion network."""
    return SplitHub(*moved(hub.model, slope, hub.memory, optimiser, lr))


def moved_party(
    client: SplitParty, slope: Array, f: PartyOracle, optimiser: Optimiser, lr: Scalar
) -> SplitParty:
    """A party's step, for the gradient in its part of the round's batch."""
    share = client.share
    rows = f.batch_rows(key_of(client.seed))
    gradient = f.on_rows(rows).pull(share, slope) + f.grad_r(share)
    return SplitParty(*moved(share, gradient, client.memory, optimiser, lr), client.seed)
