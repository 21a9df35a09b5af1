"""Members of a crew of threads: where they meet, and what becomes of them when one fails."""

import threading
import time

import numpy as np
import pytest

from fedloom.rounds import crew
from fedloom.rounds.crew import cores, crew_of


def test_who_computes_for_long_is_waited_for(monkeypatch):
    """Clients may differ in what they have to do, by more than anybody's patience."""
    monkeypatch.setattr(crew, "_PATIENCE", 0.05)
    pair = crew_of(2)

    def work(rank):
        end = time.monotonic() + 0.5 * rank
        while time.monotonic() < end:
            np.sort(np.arange(1000.0))
        out = np.zeros(2)
        pair._meet(0, None, [out], [np.full(2, 1.0 + rank)], np.int32(rank))
        return out.tolist()

    assert pair.do(work) == [[1.0, 2.0], [1.0, 2.0]]


def test_as_many_threads_as_jax_is_told_to_have(monkeypatch):
    there = cores()
    for told, expected in (("1", 1), ("0", 1), ("999", there), ("many", there)):
        monkeypatch.setenv("NPROC", told)
        assert cores() == expected


def test_where_a_member_fails_all_end_with_its_error():
    pair = crew_of(2)
    met = threading.Event()

    def work(rank):
        if rank == 1:
            met.wait(10)
            raise ValueError("lost")
        met.set()
        pair._meet(0, None, [np.zeros(2)], [np.ones(2)], np.int32(rank))

    with pytest.raises(ValueError, match="lost"):
        pair.do(work)
    assert pair.do(lambda rank: rank) == [0, 1]


class Late:
    """Results that a member takes some time after all have met."""

    def __init__(self):
        self.numbers = np.zeros(2)

    def __array__(self, dtype=None, copy=None):
        time.sleep(0.005)
        return self.numbers


def test_every_turn_has_its_own_numbers_however_late_a_member_takes_them():
    pair, taken = crew_of(2), {0: [], 1: []}

    def work(rank):
        for turn in range(8):
            out = Late() if turn % 3 == rank else np.zeros(2)
            pair._meet(0, None, [out], [np.full(2, 10.0 * turn + rank)], np.int32(rank))
            taken[rank].append(list(getattr(out, "numbers", out)))

    pair.do(work)
    assert taken[0] == taken[1] == [[10.0 * turn, 10.0 * turn + 1] for turn in range(8)]


def test_a_member_that_begins_after_an_interruption_does_nothing(monkeypatch):
    """Ctrl-C may come while a thread is started, when nobody can tell that it will run."""
    pair, worked, begun = crew_of(2), [], []

    def interrupted(thread):
        begun.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pair.do(worked.append)
    begun[0].run()
    assert not worked
    assert pair.do(lambda rank: rank) == [0, 1] and not pair._meetings


def test_nobody_waits_for_a_member_that_failed_before():
    pair, lost = crew_of(2), threading.Event()

    def work(rank):
        if rank == 1:
            lost.set()
            raise ValueError("lost")
        lost.wait(10)
        time.sleep(0.1)
        pair._meet(0, None, [np.zeros(2)], [np.ones(2)], np.int32(rank))

    with pytest.raises(ValueError, match="lost"):
        pair.do(work)
