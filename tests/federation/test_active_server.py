"""A server that does not follow the protocol of secure sums: what it tries, and that it is refused.

Each attack is a hub whose letters are changed on their way. What counts is that nothing leaves a
site by which the sum, or a part of it, could be opened.
"""

import contextlib
import json
import threading

import numpy as np
import pytest

from federation.authority import SERVER, certify, key_of, pem
from federation.members import Members, summing
from federation.members import letter as a_letter
from fedloom.errors import FedloomError, RefusedError, UnopenedError
from fedloom.exchange.hub import Lost
from fedloom.exchange.secure import masks
from fedloom.exchange.secure.circle import Circle
from fedloom.exchange.secure.identity import _HASH, _PADDING, Identity
from fedloom.exchange.secure.ledger import Ledger
from fedloom.exchange.secure.member import PHASES, Member, masked_body

VECTORS = np.random.default_rng(7).normal(size=(5, 6))


class Attack(Members):
    """A transport that changes letters, and notes who refuses what."""

    def __init__(self, folder, vectors=VECTORS, change=lambda id, letter: letter, **options):
        super().__init__(folder, vectors, options.pop("leave", {}), **options)
        self.change = change
        self.refusals = {}
        self.said = {}  # phase -> who answered

    def send(self, letters):
        answers = {}
        for id, letter in letters.items():
            try:
                if id in self.leave.get(letter.phase, ()):
                    raise UnopenedError("gone")
                answers[id] = self.members[id].reply_to(self.change(id, letter))
                self.said.setdefault(letter.phase, set()).add(id)
            except FedloomError as error:
                self.refusals[id] = error
                answers[id] = Lost(str(error))
        return answers

    def opens_nothing(self, ids=range(5), round=1):
        with pytest.raises(UnopenedError):
            summing(self, ids, VECTORS.shape[1], round)


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


def test_a_question_to_one_site_and_another_to_the_others_open_noise(tmp_path):
    """A model to which all others answer with zeros would make the sum one site's reply.

    The others agree with each other and open the sum, but masks of other questions do not cancel.
    """
    attack = Attack(tmp_path, change=another_model({0}))
    _, total = summing(attack, range(5), 6)
    assert "1 of 4 members agree with this site on the question" in str(attack.refusals[0])
    assert np.abs(total).min() > 1e3 * np.abs(VECTORS).sum()


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
    summing(attack, range(5), 6)
    assert "this site is left out" in str(attack.refusals[4])


def test_the_same_exchange_with_another_cohort_is_refused_for_ever(tmp_path):
    """S(0123) - S(012) gave the reply of site 3 to 4e-11."""
    attack = Attack(tmp_path, VECTORS[:4])
    arrived, _ = summing(attack, range(4), 6)
    assert arrived == [0, 1, 2, 3]
    for _ in range(2):
        attack = Attack(tmp_path, VECTORS[:4])  # the sites' processes are new, their files not
        attack.opens_nothing(range(3))
        assert "masked" not in attack.said
        assert "answered exchange 1 of round 1 already" in str(attack.refusals[0])
    arrived, _ = summing(attack, range(3), 6, round=2)
    assert arrived == [0, 1, 2]  # the next round goes on


def test_the_same_members_with_other_drop_outs_are_refused_too(tmp_path):
    attack = Attack(tmp_path, VECTORS[:4], leave={"masked": {3}})
    assert summing(attack, range(4), 6)[0] == [0, 1, 2]
    attack = Attack(tmp_path, VECTORS[:4])
    attack.opens_nothing(range(4))
    assert attack.said["agree"] == {3}  # which has not agreed to anything yet
    assert "agreed to another sum in exchange 1 of round 1" in str(attack.refusals[0])


def phases(sites, first, last, arrived, round=1):
    """Play some phases with sites that work for different processes; returns the last answers."""
    said = {}
    for phase in PHASES[PHASES.index(first) : PHASES.index(last) + 1]:
        bodies = {
            "keys": lambda id: b"",
            "shares": lambda id: json.dumps(sites.cards).encode(),
            "masked": lambda id: masked_body({u: b[str(id)] for u, b in sites.boxes(id)}, b""),
            "agree": lambda id: json.dumps({"arrived": arrived}).encode(),
        }
        said = {
            id: site.reply_to(a_letter(phase, bodies[phase](id), round))
            for id, site in enumerate(sites.members)
            if phase != "agree" or id in arrived
        }
        if phase == "keys":
            sites.cards = {id: json.loads(card) for id, card in said.items()}
        if phase == "shares":
            told = {id: json.loads(box) for id, box in said.items()}
            sites.boxes = lambda id, told=told: [(u, b) for u, b in told.items() if u != id]
    return said


def test_a_second_job_agrees_to_no_other_sum_of_a_round_that_is_over(tmp_path):
    """It had got as far as its part when the first job went on, and the notes were deleted."""
    first, second = (Members(tmp_path, VECTORS[:4], {}) for _ in range(2))
    phases(first, "keys", "agree", [0, 1, 2, 3])
    phases(second, "keys", "masked", [])
    phases(first, "keys", "masked", [], round=2)
    with pytest.raises(UnopenedError, match="has taken part in round 2"):
        phases(second, "agree", "agree", [0, 1, 2])


def test_two_jobs_that_agree_at_once_agree_to_one_sum(tmp_path, monkeypatch):
    jobs = [Members(tmp_path, VECTORS[:4], {}) for _ in range(2)]
    for job in jobs:
        phases(job, "keys", "masked", [])
    both = threading.Barrier(2)
    read = Ledger._read

    def together(ledger, place):
        known = read(ledger, place)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return known

    monkeypatch.setattr(Ledger, "_read", together)
    agreed = []

    def agree(job, arrived):
        body = json.dumps({"arrived": arrived}).encode()
        with contextlib.suppress(UnopenedError):
            agreed.append(job.members[0].reply_to(a_letter("agree", body)))

    lists = ([0, 1, 2, 3], [0, 1, 2])
    threads = [threading.Thread(target=agree, args=pair) for pair in zip(jobs, lists, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(agreed) == 1


def test_an_older_round_is_refused(tmp_path):
    attack = Attack(tmp_path)
    summing(attack, range(5), 6, round=3)
    attack.said.clear()
    attack.opens_nothing(round=2)
    assert "masked" not in attack.said
    assert "has taken part in round 3" in str(attack.refusals[0])


def test_the_same_exchange_with_the_same_cohort_gets_the_same_parts(tmp_path):
    """Noise is not drawn anew, or it could be averaged away."""
    sums = []
    for seed in (1, 2):
        noisy = np.random.default_rng(seed).normal(size=(5, 6))
        sums.append(summing(Members(tmp_path, noisy, {}), range(5), 6)[1])
    np.testing.assert_array_equal(*sums)
    (file,) = (tmp_path / "s0").glob("sum-*")
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_ledger_keeps_the_running_round(tmp_path):
    ledger = Ledger(tmp_path / "states")
    for place in ((1, 1), (1, 2), (2, 1)):
        ledger.note_part(place, "question", b"part\nwith a line")
    assert [file.name for file in (tmp_path / "states").iterdir()] == ["sum-2-1"]
    assert ledger.part((2, 1), "question") == b"part\nwith a line"
    with pytest.raises(UnopenedError, match="to another question"):
        ledger.part((2, 1), "another question")


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
