"""An exchange is summed once, over one list of members: what a site's ledger is for."""

import contextlib
import json
import threading

import numpy as np
import pytest

from federation.members import VECTORS, Attack, Members, summing
from federation.members import letter as a_letter
from fedloom.errors import UnopenedError
from fedloom.exchange.secure.ledger import Ledger
from fedloom.exchange.secure.member import PHASES, masked_body


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
