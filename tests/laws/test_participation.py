"""Clients that are not there are left alone, and a method survives them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.measuring.result import to_host
from fedloom.population import assemble
from fedloom.protocol import relay
from fedloom.rounds import keys, program
from fedloom.rounds.mapping import Plan
from laws.trials import ALL, BATCH, KEYS, trial

PLAN = Plan(None, None)


@functools.cache
def round_with_losses(entry):
    """One round as a function of who is lost; tells who answered, and all states."""
    tried, algorithm = trial(entry.kind), entry.example()
    federation = assemble(tried.problem, tried.clients, BATCH, "float64")
    root = keys.root(3)

    def play(lost):
        hub, before, _ = program.opening(algorithm, federation, root, PLAN)
        answered = [jnp.zeros(len(tried.clients), bool)]

        def drop(request):
            ids = jnp.asarray(request.to.ids)
            present = jnp.logical_and(request.to.present, ~lost[ids])
            there = jnp.logical_and(present, request.when)
            answered[0] = answered[0].at[ids].max(there)
            return dataclasses.replace(request, to=dataclasses.replace(request.to, present=present))

        steps = relay(algorithm.round(hub, federation.fed, keys.hub(root, 1)), outgoing=drop)
        hub, after, *_ = program.drive(steps, algorithm, federation, before, root, 1, PLAN)
        return hub, before, after, answered[0]

    return jax.jit(play)


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
@pytest.mark.parametrize("lost", [(1, 0, 0, 0), (1, 1, 1, 1)], ids=["one", "all"])
def test_absent_clients_keep_their_state(entry, lost, double):
    lost = np.array(lost, bool)
    hub, before, after, answered = to_host(round_with_losses(entry)(jnp.asarray(lost)))
    assert not (answered & lost).any()
    absent = ~answered
    for members, *states in zip(trial(entry.kind).groups(), before, after, strict=True):
        away = absent[members]
        jax.tree.map(lambda b, a: np.testing.assert_array_equal(b[away], a[away]), *states)  # noqa: B023
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(hub))
