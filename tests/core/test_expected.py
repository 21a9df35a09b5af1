"""What is said in a run is known beforehand, to those who hold the rows and those who do not."""

import jax
import numpy as np
import pytest

from fedloom.data.parties import Parties
from fedloom.exchange.expected import (
    as_shapes,
    bare_clients,
    bare_parties,
    expected_exchanges,
    one_with_rows,
)
from fedloom.population import alone, assemble
from laws.trials import BATCH, IN_TURN, trial


def known_of(clients):
    """The clients as their hub knows them."""
    if isinstance(clients, Parties):
        return bare_parties(clients.names, clients.widths, clients.rows, 0, clients.classes)
    counts = [
        [int((clients.of(i).y == label).sum()) for label in range(clients.classes)]
        for i in range(len(clients))
    ]
    return bare_clients(clients.names, counts, clients.train.x.shape[1:], clients.labels)


@pytest.mark.parametrize("entry", IN_TURN)
def test_counts_suffice_to_know_every_message(entry):
    tried, algorithm = trial(entry.kind), entry.example()
    whole = assemble(tried.problem, tried.clients, BATCH, "float32")
    bare = as_shapes(tried.problem, known_of(tried.clients), BATCH, "float32")
    assert expected_exchanges(algorithm, bare) == expected_exchanges(algorithm, whole)


@pytest.mark.parametrize("entry", [p for p in IN_TURN if p.values[0].kind.startswith("vertical")])
def test_the_widths_of_others_change_nothing_of_what_is_said(entry):
    tried, algorithm = trial(entry.kind), entry.example()
    known = known_of(tried.clients)
    own = known.widths[0]
    alike = bare_parties(known.names, (own,) * len(known), known.rows, 0, known.classes)
    told = [
        expected_exchanges(algorithm, as_shapes(tried.problem, p, BATCH, "float32"))
        for p in (known, alike)
    ]
    assert told[0] == told[1]


def test_a_site_that_knows_counts_of_others_holds_what_it_would_hold():
    tried = trial("smooth")
    bare = known_of(tried.clients)
    np.testing.assert_array_equal(bare.sizes, tried.clients.sizes)
    for i, group in enumerate(alone(tried.problem, tried.clients, BATCH, "float32")):
        own = one_with_rows(tried.problem, bare, i, tried.clients.of(i), None, BATCH, "float32")
        assert own.layout == group.layout
        jax.tree.map(np.testing.assert_array_equal, own.train.rows, group.train.rows)
