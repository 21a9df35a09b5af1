"""Secure sums in a whole run: what is played again, what is lost, and what the server is told."""

import json

import jax
import numpy as np
import pytest

from federation import harness
from federation.harness import MORE, Wire, clients, federation, policies, refused, settings
from fedloom.errors import FederationError
from fedloom.federation.job import job_of
from fedloom.federation.server import course, sites
from fedloom.federation.server.sites import SiteError
from tiers import in_turn

# Two exchanges in a round, and clients that keep a state.
ALGORITHM = {"key": "decoupled_prox", "lr": 0.2, "local_steps": 2, "cohort": 4}
POLICY = {"methods": ["decoupled_prox"]}
LAST = MORE[3]


def chosen(rounds=4, **changes):
    federated = {"secure_aggregation": True, "min_sites": 3, **changes}
    run = {"rounds": rounds, "eval_every": 2}
    return settings(algorithm=ALGORITHM, run=run, federation=federated)


def four(folder, settings, **options):
    return federation(folder, settings, held=clients(4), **POLICY, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(sites, "PAUSE_SECONDS", 0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return four(tmp_path_factory.mktemp("undisturbed"), chosen())[0].run()


def at(phase, round=2, exchange=2):
    """Whether a call is a certain letter."""

    def is_it(verb, facts):
        if verb != "letter":
            return False
        told = json.loads(facts)
        return (told["phase"], told["round"], told["exchange"]) == (phase, round, exchange)

    return is_it


def crash(folder, is_it):
    """A server that dies at a letter to the last site; returns the wires to what is left."""
    conductor, wires = four(folder, chosen())

    def die(verb, facts):
        if is_it(verb, facts):
            raise KeyboardInterrupt  # as sudden as a kill: nothing is cleaned up

    wires[LAST].before = die
    with pytest.raises(KeyboardInterrupt):
        conductor.run()
    wires[LAST].before = lambda verb, facts: None
    for wire in wires.values():
        wire.restart()
    return wires


def same_bits(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.state.hub, other.state.hub)


@pytest.mark.parametrize(
    "phase", in_turn(["keys", "masked", "agree", "unmask"], ["keys", "unmask"])
)
def test_with_the_same_sites_a_round_is_played_again(phase, tmp_path, undisturbed):
    wires = crash(tmp_path, at(phase))
    result = four(tmp_path, chosen(), wires=wires, resume=True)[0].run()
    same_bits(result, undisturbed)
    assert not any("lost" in note for note in result.about["notes"])


def test_without_one_of_them_the_round_is_lost_and_the_next_one_goes_on(tmp_path, undisturbed):
    wires = crash(tmp_path, at("keys"))
    wires[LAST].cut = True
    heard = []
    wires["berlin"].before = lambda verb, facts: heard.append((verb, json.loads(facts)))
    conductor, _ = four(tmp_path, chosen(), wires=wires, resume=True)
    result = conductor.run()
    notes = "\n".join(result.about["notes"])
    assert "berlin drops out of a secure sum: it has answered exchange 1 of round 2" in notes
    assert "round 2 is lost: 0 sites sent their part, and a secure sum needs 3" in notes
    assert notes.count("is lost") == 1 and conductor.course.hub.round == 4
    letters = [told for verb, told in heard if verb == "letter"]
    # A lost round leaves no trace in clients: the next one is answered from the states before it.
    assert {tuple(told["after"]) for told in letters if told["round"] == 3} == {(1, 2), (3, 1)}
    replies = [told for told in letters if told["method"] != "measure"]
    assert not any(told["phase"] == "agree" for told in replies if told["round"] == 2)
    assert np.isfinite(result.model).all() and not np.array_equal(result.model, undisturbed.model)
    assert [row["round"] for row in result.rows] == [0, 2, 4]


def test_a_site_lost_in_the_middle_leaves_a_sum_of_the_others(tmp_path):
    conductor, wires = four(tmp_path, chosen())

    def cut(verb, facts):
        wires[LAST].cut |= at("masked", exchange=1)(verb, facts)

    wires[LAST].before = cut
    result = conductor.run()
    assert any(note.startswith(f"{LAST} drops out of a secure") for note in result.about["notes"])
    assert not any("is lost" in note for note in result.about["notes"])
    assert result.final["sites"] == 3


def test_a_sum_that_became_too_small_for_the_owners_costs_the_round(tmp_path):
    conductor, wires = four(tmp_path, chosen(), min_sites=4)

    def fail(verb, facts):
        if at("masked", exchange=1)(verb, facts):
            raise SiteError("WireError", "a moment of weakness")

    wires[LAST].before = fail
    result = conductor.run()
    notes = "\n".join(result.about["notes"])
    assert "berlin drops out of a secure sum: a secure sum of these sites is opened with 4" in notes
    assert "round 2 is lost: 0 sites agreed to the sum" in notes
    assert notes.count("is lost") == 1 and conductor.course.hub.round == 4


def test_a_paused_round_that_others_go_on_with_is_lost(tmp_path):
    """Two of four are lost in the middle; one comes back, which is enough to go on."""
    conductor, wires = four(tmp_path, chosen())
    for name in ("torino", LAST):

        def cut(verb, facts, wire=wires[name]):
            wire.cut |= at("agree", exchange=1)(verb, facts)
            if wire is wires["torino"] and verb == "ping":
                wire.cut = False

        wires[name].before = cut
    result = conductor.run()
    notes = "\n".join(result.about["notes"])
    assert "paused: 2 of 3 sites are there" in notes and "torino is back" in notes
    assert "round 2 is lost" in notes and notes.count("is lost") == 1


def test_a_site_without_its_state_may_start_afresh_within_a_sum(tmp_path):
    conductor, wires = four(tmp_path, chosen(fresh_if_stale=True))

    def forget(verb, facts):
        if at("masked", exchange=1)(verb, facts) and json.loads(facts)["after"]:
            wires["lyon"].service.site.states.clear()

    wires["lyon"].before = forget
    notes = conductor.run().about["notes"]
    assert notes == ["lyon starts afresh: its state was lost"]


def test_a_checkpoint_keeps_what_rounds_showed_in_its_place(tmp_path):
    """Before the first round that is not lost there is nothing to show."""
    rows = [{"round": float(i)} for i in range(3)]
    shown = [(), (), {"weights": np.arange(2.0)}]
    course.save_checkpoint(course.Checkpoint(rows=rows, info=shown), tmp_path / "checkpoint")
    first, second, third = course.load_checkpoint(tmp_path / "checkpoint").info
    assert first == second == ()
    np.testing.assert_array_equal(third.weights, [0.0, 1.0])


def test_rounds_that_are_all_lost_end_the_run(tmp_path):
    conductor, wires = four(tmp_path, chosen(rounds=9), min_sites=4)

    def fail(verb, facts):
        if verb == "letter" and json.loads(facts)["phase"] == "masked":
            raise SiteError("WireError", "nothing works")

    wires[LAST].before = fail
    with pytest.raises(FederationError, match="3 rounds in a row are lost"):
        conductor.run()
    assert conductor.course.hub.round == 3


def test_two_sites_are_too_few_for_a_secure_run(tmp_path):
    conductor, _ = federation(tmp_path, chosen(min_sites=None), held=clients(2), **POLICY)
    with pytest.raises(FederationError, match="2 of 2 sites take part, and the run needs 3"):
        conductor.run()


def test_without_certificates_there_is_no_secure_run(tmp_path):
    wires = {kit.name: Wire(kit) for kit in policies(tmp_path, clients(4), **POLICY)}
    conductor = harness.conductor(job_of(chosen(), "a-run"), wires, tmp_path)
    (said,) = refused(conductor, "needs the certificates of a provisioned kit")
    assert said.startswith("0 of 4 sites take part")


def test_an_owner_may_insist_on_secure_sums(tmp_path):
    """Or a server would turn them off, and all else would be in vain."""
    conductor, _ = four(tmp_path, chosen(secure_aggregation=False), secure_aggregation=True)
    with pytest.raises(FederationError, match="demands secure aggregation"):
        conductor.run()


def lying(wire, change):
    """A server that tells one site other facts at `begin`."""
    original = wire.service.call

    def call(verb, facts, body):
        told = json.loads(facts)
        if verb == "begin":
            change(told)
        return original(verb, json.dumps(told), body)

    wire.service.call = call


def test_a_site_knows_how_many_rows_it_has(tmp_path):
    conductor, wires = four(tmp_path, chosen())
    lying(wires["lyon"], lambda told: told["counts"][1].__setitem__(0, 1000))
    result = conductor.run()
    assert result.final["sites"] == 3
    assert any(
        "lyon does not take part: the server says that this site has other numbers of rows" in n
        for n in conductor.notes
    )


def test_counts_that_are_told_to_one_site_only_are_found_out(tmp_path):
    """By such counts all weights but one could be made nearly zero."""
    conductor, wires = four(tmp_path, chosen())
    lying(wires["lyon"], lambda told: told["counts"][0].__setitem__(0, 1_000_000))
    with pytest.raises(FederationError, match="was told other settings, sites or counts"):
        conductor.run()
