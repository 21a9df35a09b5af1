"""Recompilation is a bug: new numbers must not need a new program."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.population import assemble
from fedloom.rounds import keys, program
from fedloom.rounds.mapping import Plan
from laws.trials import ALL, BATCH, KEYS, ROUNDS, run, trial


def with_half(algorithm, name):
    return dataclasses.replace(algorithm, **{name: getattr(algorithm, name) / 2})


def a_rate(algorithm) -> str:
    """Some real-valued field of the method that is not zero."""
    names = [f.name for f in dataclasses.fields(algorithm) if f.name in algorithm.__leaves__]
    return next(
        n for n in names if isinstance(getattr(algorithm, n), float) and getattr(algorithm, n)
    )


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
def test_new_numbers_need_no_new_program(entry, monkeypatch):
    run(entry)
    traces = []
    original = entry.cls.round
    monkeypatch.setattr(entry.cls, "round", lambda *a: traces.append(1) or original(*a))
    example = entry.example()
    run(entry, algorithm=with_half(example, a_rate(example)), seed=5, rounds=ROUNDS + 3)
    assert not traces


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
def test_a_sweep_is_a_vmap(entry, double):
    tried, example = trial(entry.kind), entry.example()
    name = a_rate(example)
    federation = assemble(tried.problem, tried.clients, BATCH, "float64")
    plan, root = Plan(None, None), keys.root(0)

    def final_hub(rate):
        algorithm = dataclasses.replace(example, **{name: rate})
        hub, clients, _ = program.opening(algorithm, federation, root, plan)
        start, stop = jnp.int32(0), jnp.int32(ROUNDS)
        return program.rounds(algorithm, federation, hub, clients, root, start, stop, plan).hub

    rate = getattr(example, name)
    swept = jax.jit(jax.vmap(final_hub))(jnp.array([rate, rate / 2]))
    alone = run(entry, algorithm=with_half(example, name)).state.hub
    compare = lambda s, a: np.testing.assert_allclose(s[1], a, rtol=1e-9, atol=1e-12)  # noqa: E731
    jax.tree.map(compare, swept, alone)
