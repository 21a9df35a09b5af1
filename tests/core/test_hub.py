"""The hub takes what it expects from whom it asked, and nothing else; sites do likewise."""

import jax
import numpy as np
import pytest

from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.errors import DivergedError, StaleStateError, WireError
from fedloom.exchange import wire
from fedloom.exchange.hub import FIRST, Letter
from fedloom.exchange.in_process import InProcess
from laws.trials import BATCH, trial


def federation(key="scaffold"):
    tried = trial("smooth")
    network = InProcess(CATALOGUE[key].example(), tried.problem, tried.clients, batch_size=BATCH)
    network.reports = []
    network._hub.report = network.reports.append
    return network


def spoil(site, change):
    """Let a site's replies be changed on the way."""
    original = site.reply_to
    site.reply_to = lambda letter: change(original(letter))


def with_nan(data):
    return data[:-4] + np.float32(np.nan).tobytes()


def everyone(network):
    """A round to which all four clients are asked: three of them, until each has been."""
    for _ in range(6):
        network.step()


@pytest.mark.parametrize(
    "change,reason",
    [
        (with_nan, "finite"),
        (lambda data: data[:-1], "not a message"),
        (lambda data: b"", "message"),
    ],
    ids=["nan", "short", "empty"],
)
def test_a_bad_reply_costs_that_reply_and_names_the_client(change, reason):
    network = federation()
    spoil(network.sites[2], change)
    everyone(network)
    assert network.reports
    assert all("client 2" in text and reason in text for text in network.reports)
    assert network._hub.ages[2] == FIRST  # the hub has never heard of it
    assert network._hub.ages[0] > FIRST
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network.hub))


def test_where_no_reply_is_finite_the_run_has_diverged():
    network = federation()
    for site in network.sites:
        spoil(site, with_nan)
    before = network.hub
    with pytest.raises(DivergedError, match="no reply to 'train' is finite"):
        network.step()
    assert network.hub is before


def test_where_no_reply_can_be_read_the_step_size_is_not_blamed():
    network = federation()
    for site in network.sites:
        spoil(site, lambda data: b"")
    network.step()  # a round without anybody
    assert len(network.reports) == 3


def test_a_client_that_was_not_heard_answers_from_the_state_that_it_had():
    lossy, lost = federation(), []

    def lose(data):
        lost.append(1)
        return b"" if len(lost) == 1 else data

    spoil(lossy.sites[0], lose)
    while not lost:
        lossy.step()
    moved, site = lossy.sites[0].state, lossy.sites[0]
    assert site.state_after(lossy._hub.ages[0]) is site.first
    assert not np.array_equal(moved.control, site.first.control)
    # From then on it is as if its first reply had never been made.
    while len(lost) < 2:
        lossy.step()
    assert lossy._hub.ages[0] == max(site.states)


def letter(network, **changes):
    message = wire.encode(network.hub)
    return Letter("train", message, 1, 1, 3, FIRST)._replace(**changes)


@pytest.mark.parametrize(
    "changes,error,complaint",
    [
        ({"method": "init_hub"}, WireError, "asks for 'train', not for 'init_hub'"),
        ({"exchange": 2}, WireError, "exchange 2 of round 1 is none of the 1"),
        ({"round": 0}, WireError, "exchange 1 of round 0 is none of the 0"),
        ({"after": (3, 1)}, StaleStateError, "the state after round 3, exchange 1 is not here"),
        ({"body": b"junk"}, WireError, "not a message"),
    ],
)
def test_a_site_answers_only_what_its_settings_foresee(changes, error, complaint):
    network = federation()
    with pytest.raises(error, match=complaint):
        network.sites[0].reply_to(letter(network, **changes))
    assert not network.sites[0].states


def test_a_site_keeps_the_states_that_can_be_asked_for():
    site = federation().sites[1]

    def told(round, exchange, after):
        site._keep(Letter("train", b"", round, exchange, 3, after), site.first)
        return set(site.states)

    assert told(1, 1, FIRST) == {(1, 1)}
    assert told(2, 1, FIRST) == {(2, 1)}  # the hub has not heard the first reply
    assert told(3, 1, (2, 1)) == {(2, 1), (3, 1)}
    assert told(3, 2, (3, 1)) == {(2, 1), (3, 1), (3, 2)}  # the round may be played again
    assert told(3, 1, (2, 1)) == {(2, 1), (3, 1)}
    assert told(4, 1, (3, 1)) == {(3, 1), (4, 1)}
    assert told(5, 1, None) == {(5, 1)}


def test_clients_without_state_have_no_age():
    site = federation("fedavg").sites[0]
    assert site.state_after((9, 9)) == ()
