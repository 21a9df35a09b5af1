"""One definition, two engines: the same trajectory to rounding, and the same bytes."""

import jax
import numpy as np
import pytest

from fedloom.exchange.in_process import InProcess
from laws.trials import ALL, BATCH, KEYS, ROUNDS, run, trial


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
def test_wire_and_simulator_give_the_same_trajectory(entry, double):
    simulated = run(entry)
    tried = trial(entry.kind)
    network = InProcess(
        entry.example(), tried.problem, tried.clients, batch_size=BATCH, precision="float64"
    )
    for _ in range(ROUNDS):
        network.step()
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)  # noqa: E731
    jax.tree.map(close, simulated.state.hub, network.hub)
    for i, site in enumerate(network.sites):
        jax.tree.map(close, client_state(simulated, tried, i), site.state)
    assert simulated.final["bytes_down"] == network.bytes_down
    assert simulated.final["bytes_up"] == network.bytes_up


def client_state(result, tried, i):
    """The state of a client, from that of its group."""
    for members, states in zip(tried.groups(), result.state.clients, strict=True):
        if i in members:
            return jax.tree.map(lambda leaf: leaf[members.index(i)], states)  # noqa: B023
    raise LookupError(f"client {i} is in no group")
