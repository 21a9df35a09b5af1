"""A server that does not follow the protocol of secure sums: what it tries, and that it is refused.

Each attack is a hub whose letters are changed on their way. What counts is that nothing leaves a
site by which the sum, or a part of it, could be opened.
"""

import json

import numpy as np
import pytest

from federation.authority import SERVER, certify, key_of, pem
from federation.members import VECTORS, Attack, summing, sums_before_judging
from federation.members import letter as a_letter
from fedloom.errors import RefusedError
from fedloom.exchange.secure import masks
from fedloom.exchange.secure.circle import Circle
from fedloom.exchange.secure.identity import _HASH, _PADDING, Identity
from fedloom.exchange.secure.ledger import Ledger
from fedloom.exchange.secure.member import Member, masked_body


def changed_card(victim, forge):
    """Everybody but the victim is shown another card in its name."""

    def change(id, letter):
        if letter.phase != "shares" or id == victim:
            return letter
        cards = json.loads(letter.body)
        cards[str(victim)] = forge(cards)
        return letter._replace(body=json.dumps(cards).encode())

    return change


def own_keys():
    return (masks.public(masks.new_key()) + masks.public(masks.new_key())).hex()


def signed_by(name, authority="project", text=b"anything"):
    return key_of(name, authority).sign(text, _PADDING, _HASH).hex()


def keys_text(keys):
    circle = Circle("a-run", tuple(f"s{i}" for i in range(5)), "told")
    return circle.keys_text(a_letter(), 1, keys, 1)


def forged(authority="project", **options):
    """The server's own keys with a certificate in the victim's name, signed as it should be."""
    keys = own_keys()
    name = "s1" if authority != "project" or options else SERVER
    certificate = pem(name, authority, **options).decode()
    return [keys, 1, certificate, signed_by(name, authority, keys_text(keys))]


CARDS = {
    "another key": (lambda c: [own_keys(), *c["1"][1:]], "s1 has not signed"),
    "another signature": (lambda c: [*c["1"][:3], signed_by("s1")], "s1 has not signed"),
    "fewer than it wants": (lambda c: [c["1"][0], 0, *c["1"][2:]], "s1 has not signed"),
    "of another site": (lambda c: c["2"], "came as s1's is s2's"),
    "of another authority": (lambda c: forged("eve"), "not by the authority of this project"),
    "of the server": (lambda c: forged(), "is not a site"),
    "of a person": (lambda c: forged(role="lead"), "s1 is not a site"),
    "of two sites": (lambda c: forged(also=("s2",)), "does not name one holder"),
    "out of date": (lambda c: forged(age=20), "s1 is not valid now"),
    "no certificate": (lambda c: [*c["1"][:2], "", c["1"][3]], "not by the authority"),
}


@pytest.mark.parametrize("forge,complaint", CARDS.values(), ids=CARDS)
def test_keys_that_are_not_the_sites_own_are_refused(forge, complaint, tmp_path):
    attack = Attack(tmp_path, change=changed_card(1, forge))
    attack.opens_nothing()
    assert attack.said["shares"] <= {1} and attack.refusals.keys() >= {0, 2, 3, 4}
    for id in (0, 2, 3, 4):
        assert isinstance(attack.refusals[id], RefusedError)
        assert complaint in str(attack.refusals[id])


def test_keys_of_an_older_round_are_refused(tmp_path):
    old = {}

    def change(id, letter):
        if letter.phase != "shares":
            return letter
        cards = json.loads(letter.body)
        old.setdefault(letter.round, cards["1"])
        if letter.round == 2 and id != 1:
            cards["1"] = old[1]
        return letter._replace(body=json.dumps(cards).encode())

    attack = Attack(tmp_path, change=change)
    summing(attack, range(5), 6, round=1)
    attack.opens_nothing(round=2)
    assert "s1 has not signed" in str(attack.refusals[0])


def test_keys_of_an_earlier_attempt_at_the_same_exchange_are_refused(tmp_path):
    """They are signed as they should be, but their owner has sealed nothing for the fresh ones."""
    old = {}

    def change(id, letter):
        if letter.phase != "shares":
            return letter
        cards = json.loads(letter.body)
        if id != 1:
            cards["1"] = old.setdefault("1", cards["1"])
        return letter._replace(body=json.dumps(cards).encode())

    attack = Attack(tmp_path, change=change)
    summing(attack, range(5), 6)
    del attack.said["masked"]
    attack.opens_nothing()
    assert "masked" not in attack.said and "InvalidTag" in str(attack.refusals[0])


@pytest.mark.parametrize("number", ["5", "-4"])
def test_keys_of_somebody_who_is_not_in_the_run_are_refused(number, tmp_path):
    def change(id, letter):
        if letter.phase != "shares":
            return letter
        cards = json.loads(letter.body)
        return letter._replace(body=json.dumps({**cards, number: cards["1"]}).encode())

    attack = Attack(tmp_path, change=change)
    attack.opens_nothing()
    assert "shares" not in attack.said
    assert f"no site with the number {number}" in str(attack.refusals[0])


def test_a_site_whose_own_keys_come_back_changed_refuses(tmp_path):
    def change(id, letter):
        if letter.phase != "shares" or id != 1:
            return letter
        cards = json.loads(letter.body)
        cards["1"] = cards["2"]
        return letter._replace(body=json.dumps(cards).encode())

    attack = Attack(tmp_path, change=change)
    summing(attack, range(5), 6)
    assert "own keys came back changed" in str(attack.refusals[1])


def test_a_sealed_share_that_was_changed_is_noticed_before_the_reply_leaves(tmp_path):
    def change(id, letter):
        if letter.phase != "masked":
            return letter
        size = int.from_bytes(letter.body[:4], "big")
        sealed = json.loads(letter.body[4 : 4 + size])
        other = next(iter(sealed))
        sealed[other] = sealed[other][:-1] + ("0" if sealed[other][-1] != "0" else "1")
        return letter._replace(body=masked_body(sealed, b""))

    attack = Attack(tmp_path, change=change)
    attack.opens_nothing()
    assert "masked" not in attack.said


def lists(told):
    """Tell each site its own list of who has arrived."""

    def change(id, letter):
        if letter.phase != "agree":
            return letter
        return letter._replace(body=json.dumps({"arrived": told[id]}).encode())

    return change


def test_different_drop_outs_for_different_sites_open_nothing(tmp_path):
    told = {id: sorted({0, 1, 2, 3, 4} - {(id + 1) % 5}) for id in range(5)}
    attack = Attack(tmp_path, change=lists(told))
    attack.opens_nothing()
    assert attack.said["agree"] == {0, 1, 2, 3, 4} and "unmask" not in attack.said
    assert "1 of 4 members agree with this site" in str(attack.refusals[0])


def test_nor_with_a_colluding_site_that_signs_every_list(tmp_path):
    """Site 4 works for the server: it signs for both halves, and neither has enough."""
    with_3, without_3 = [0, 1, 2, 3, 4], [0, 1, 2, 4]
    told = {0: with_3, 1: without_3, 2: without_3, 3: with_3, 4: with_3}
    change = lists(told)
    signed = {}

    def collude(id, letter):
        if letter.phase == "unmask":
            site = attack.members[4]
            text = site.circle.arrived_text(letter, site._said, site._members, told[id])
            signatures = json.loads(letter.body)["signatures"]
            signatures["4"] = site.identity.sign(text).hex()
            signed[id] = len(signatures)
            return letter._replace(body=json.dumps({"signatures": signatures}).encode())
        return change(id, letter)

    attack = Attack(tmp_path, change=collude)
    attack.opens_nothing()
    assert "unmask" not in attack.said and set(signed.values()) == {5}
    assert "3 of 4 members agree" in str(attack.refusals[0])
    assert "3 of 4 members agree" in str(attack.refusals[1])


def another_model(ids):
    def change(id, letter):
        if letter.phase != "masked" or id not in ids:
            return letter
        return letter._replace(body=letter.body + b"another model")

    return change


def test_a_question_to_one_site_and_another_to_the_others_open_noise(tmp_path, monkeypatch):
    """A model to which all others answer with zeros would make the sum one site's reply.

    The others agree with each other and open the sum, but masks of other questions do not cancel.
    """
    attack = Attack(tmp_path, change=another_model({0}))
    seen = sums_before_judging(monkeypatch)
    attack.opens_nothing()
    assert "1 of 4 members agree with this site on the question" in str(attack.refusals[0])
    assert np.abs(seen[0]).min() > 1e3 * np.abs(VECTORS).sum()


def test_questions_that_divide_the_sites_open_nothing(tmp_path):
    attack = Attack(tmp_path, change=another_model({0, 1}))
    attack.opens_nothing()
    assert "unmask" not in attack.said


def test_a_sum_of_fewer_than_the_threshold_is_not_opened(tmp_path):
    attack = Attack(tmp_path, change=lists([[0, 1, 2]] * 5))
    attack.opens_nothing()
    assert "agree" not in attack.said
    assert "opened with 4 answers or more" in str(attack.refusals[0])


def test_a_sum_of_fewer_than_one_policy_wants_is_not_opened_after_drop_outs(tmp_path):
    """The other four could open it without that site, and do not."""
    attack = Attack(tmp_path, leave={"masked": {2}}, least={0: 5})
    attack.opens_nothing()
    assert attack.said["masked"] == {0, 1, 3, 4} and "agree" not in attack.said
    for id in (0, 1, 3, 4):
        assert "opened with 5 answers or more" in str(attack.refusals[id])


def test_where_that_site_is_the_one_that_drops_out_the_others_go_on(tmp_path):
    attack = Attack(tmp_path, leave={"masked": {2}}, least={2: 5})
    assert summing(attack, range(5), 6)[0] == [0, 1, 3, 4]


def test_a_site_does_not_share_among_fewer_than_its_policy_wants(tmp_path):
    attack = Attack(tmp_path, leave={"keys": {2}}, least={0: 5})
    assert summing(attack, range(5), 6)[0] == [1, 3, 4]
    assert "needs 5 members or more" in str(attack.refusals[0])


def test_who_is_not_in_the_sum_opens_nothing(tmp_path):
    attack = Attack(tmp_path, change=lists([[0, 1, 2, 3]] * 5))
    attack.opens_nothing()
    assert "this site is left out" in str(attack.refusals[4])


PLACES = {
    "another name": (("s1", "s2", "s3"), 0, "is told another place or name"),
    "another place": (("s0", "s1", "s2"), 3, "is told another place or name"),
    "a site twice": (("s0", "s1", "s1"), 0, "must not have two places"),
}


@pytest.mark.parametrize("names,id,complaint", PLACES.values(), ids=PLACES)
def test_a_site_knows_its_name_and_counts_others_once(names, id, complaint, tmp_path):
    identity = Identity(certify(tmp_path / "s0"))
    circle, ledger = Circle("a-run", names, "told"), Ledger(tmp_path)
    with pytest.raises(RefusedError, match=complaint):
        Member(id, 1.0, {}, lambda letter: 0, identity=identity, circle=circle, ledger=ledger)


def test_sites_that_were_told_different_things_do_not_sum(tmp_path):
    """Settings, names and counts are in one digest, which is signed with the keys."""
    attack = Attack(tmp_path)
    attack.members[0].circle = attack.members[0].circle._replace(told="other counts")
    attack.opens_nothing()
    assert "told other settings, sites or counts" in str(attack.refusals[0])
    assert "told other settings, sites or counts" in str(attack.refusals[1])
