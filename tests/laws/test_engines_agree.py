"""One definition, two engines: the same trajectory to rounding, and the same bytes."""

import jax
import numpy as np
import pytest

from fedloom.engines.in_process import InProcess
from laws.trials import ALL, BATCH, KEYS, ROUNDS, client_states, run, trial


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
    for state, site in zip(client_states(simulated.state.clients), network.sites, strict=False):
        jax.tree.map(close, state, site.state)
    assert simulated.final["bytes_down"] == network.bytes_down
    assert simulated.final["bytes_up"] == network.bytes_up
