"""Members of a crew of threads: where they meet, and what becomes of them when one fails."""

import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.rounds import meetings, native_meetings
from fedloom.rounds.crew import Crew, cores
from fedloom.rounds.meetings import CannotMeetError, Meetings

KINDS = {"python": Meetings, "native": native_meetings.of}


@pytest.fixture(params=KINDS)
def pair(request):
    """A crew of two, who meet in Python or natively."""
    crew = Crew(2)
    crew._meetings = KINDS[request.param](2)
    if crew._meetings is None:
        pytest.skip("there is no C++ compiler for native meetings")
    return crew


def meeting_of(crew, turns=1):
    """What a member calls: `turns` meetings, to which it brings 10 turn + rank and more."""

    def program(rank):
        def turn(carry, number):
            own = jnp.where(jnp.arange(2) == rank, 10.0 * number + rank + carry, jnp.nan)
            whole = crew.shared({"a": own, "b": jnp.stack([own] * 3, 1)}, rank)
            return 0.0 * whole["a"].sum(), whole

        return jax.lax.scan(turn, 0.0, jnp.arange(turns, dtype=jnp.float32))[1]

    compiled = jax.jit(program).lower(jnp.int32(0)).compile()
    return lambda rank: jax.tree.map(np.asarray, compiled(jnp.int32(rank)))


def test_who_computes_for_long_is_waited_for(pair, monkeypatch):
    """Clients may differ in what they have to do, by more than anybody's patience."""
    monkeypatch.setattr(meetings, "PATIENCE", 0.6)  # within which a busy machine lets it compute
    meet = meeting_of(pair)

    def work(rank):
        end = time.monotonic() + 1.5 * rank
        while time.monotonic() < end:
            np.sort(np.arange(1000.0))
        return meet(rank)["a"].tolist()

    assert pair.do(work) == [[[0.0, 1.0]]] * 2


def test_who_computes_for_much_longer_than_ever_is_not_waited_for(pair):
    """Other work in the process may keep a member from going on for as long as it lasts."""
    meet, stop = meeting_of(pair), threading.Event()

    def work(rank):
        while rank and not stop.is_set():
            np.sort(np.arange(1000.0))
        try:
            return meet(rank)
        finally:
            stop.set()

    with pytest.raises(CannotMeetError):
        pair.do(work, limit=0.3)
    assert pair.do(lambda rank: meet(rank)["a"].tolist(), limit=60) == [[[0.0, 1.0]]] * 2


def test_who_does_not_come_is_not_waited_for_for_ever(pair, monkeypatch):
    monkeypatch.setattr(meetings, "PATIENCE", 0.1)
    meet = meeting_of(pair)
    with pytest.raises(CannotMeetError):
        pair.do(lambda rank: None if rank else meet(rank))
    assert pair.do(lambda rank: meet(rank)["a"].tolist()) == [[[0.0, 1.0]]] * 2


STOPPED = """
import os, subprocess, sys, time
import jax, jax.numpy as jnp
from fedloom.rounds import meetings
from fedloom.rounds.crew import Crew
meetings.PATIENCE = 1.5
pair = Crew(2)
if sys.argv[1] == "python":
    pair._meetings = meetings.Meetings(2)
shared = jax.jit(lambda rank: pair.shared(jnp.arange(2), rank)).lower(jnp.int32(0)).compile()

def work(rank):
    if rank == 1:
        me = os.getpid()
        subprocess.run(["sh", "-c", f"sleep 0.1; kill -STOP {me}; sleep 2.5; kill -CONT {me}"])
        time.sleep(0.3)
    return shared(jnp.int32(rank)).tolist()

print(pair.do(work))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_while_a_process_is_stopped_nobody_loses_patience(kind):
    """As by Ctrl-Z, or by a queue that gives its place to others."""
    line = [sys.executable, "-c", STOPPED, kind]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[[0, 1], [0, 1]]", done.stderr


def test_as_many_threads_as_jax_is_told_to_have(monkeypatch):
    there = cores()
    for told, expected in (("1", 1), ("0", 1), ("999", there), ("many", there)):
        monkeypatch.setenv("NPROC", told)
        assert cores() == expected


def test_where_a_member_fails_all_end_with_its_error(pair):
    met, meet = threading.Event(), meeting_of(pair)

    def work(rank):
        if rank == 1:
            met.wait(10)
            raise ValueError("lost")
        met.set()
        meet(rank)

    with pytest.raises(ValueError, match="lost"):
        pair.do(work)
    assert pair.do(lambda rank: rank) == [0, 1]


def test_nobody_waits_for_a_member_that_failed_before(pair):
    lost, meet = threading.Event(), meeting_of(pair)

    def work(rank):
        if rank == 1:
            lost.set()
            raise ValueError("lost")
        lost.wait(10)
        time.sleep(0.1)
        meet(rank)

    with pytest.raises(ValueError, match="lost"):
        pair.do(work)


def test_every_turn_has_its_own_numbers_of_all_members(pair):
    turns = 300
    expected = 10.0 * np.arange(turns)[:, None] + [0, 1]
    for whole in pair.do(meeting_of(pair, turns)):
        assert np.array_equal(whole["a"], expected)
        assert np.array_equal(whole["b"], np.stack([expected] * 3, 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [3, 4, 7])
def test_members_whose_shares_are_not_equal_have_all_parts(kind, parts):
    size = min(3, cores())
    crew = Crew(size)
    crew._meetings = KINDS[kind](size)
    if crew._meetings is None:
        pytest.skip("there is no C++ compiler for native meetings")

    def program(rank):
        first, last = crew.mine(rank, parts)
        places = jnp.arange(parts)
        return crew.shared(jnp.where((places >= first) & (places < last), places, -1), rank)

    compiled = jax.jit(program).lower(jnp.int32(0)).compile()
    for whole in crew.do(lambda rank: np.asarray(compiled(jnp.int32(rank)))):
        assert whole.tolist() == list(range(parts))


def test_members_of_unlike_programs_do_not_meet(pair):
    """Which never happens; if it did, nothing would be written beyond an array."""
    programs = []
    for length in (2, 4):
        pair.number_anew()
        shared = jax.jit(lambda rank, length=length: pair.shared(jnp.ones(length), rank))
        programs.append(shared.lower(jnp.int32(0)).compile())
    with pytest.raises((CannotMeetError, jax.errors.JaxRuntimeError)):
        pair.do(lambda rank: jax.block_until_ready(programs[rank](jnp.int32(rank))))


class Late:
    """Results that a member takes some time after all have met."""

    def __init__(self):
        self.numbers = np.zeros(2)

    def __array__(self, dtype=None, copy=None):
        time.sleep(0.005)
        return self.numbers


def test_every_turn_has_its_own_numbers_however_late_a_member_takes_them():
    place, taken = Meetings(2), {0: [], 1: []}

    def work(rank):
        for turn in range(8):
            out = Late() if turn % 3 == rank else np.zeros(2)
            place._meet(0, None, [out], [np.full(2, 10.0 * turn + rank)], np.int32(rank))
            taken[rank].append(list(getattr(out, "numbers", out)))

    Crew(2).do(work)
    assert taken[0] == taken[1] == [[10.0 * turn, 10.0 * turn + 1] for turn in range(8)]


STOPS = [KeyboardInterrupt, TimeoutError, SystemExit]  # handlers of signals raise any of them


@pytest.mark.parametrize("stop", STOPS)
def test_a_member_that_begins_after_an_interruption_does_nothing(pair, monkeypatch, stop):
    """Ctrl-C may come while a thread is started, when nobody can tell that it will run."""
    worked, begun = [], []

    def interrupted(thread):
        begun.append(thread)
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(stop):
            pair.do(worked.append)
    begun[0].run()
    assert not worked
    assert pair.do(lambda rank: rank) == [0, 1]
    assert len(pair.do(meeting_of(pair))) == 2  # nobody is left at a meeting


@pytest.mark.parametrize("stop", STOPS)
def test_an_interruption_ends_members_that_wait(pair, monkeypatch, stop):
    """Ctrl-C is heard by the thread that began the others, and not by these."""
    waiting, over, ended = threading.Event(), threading.Event(), []
    meet, wait = meeting_of(pair), threading.Event.wait

    def interrupted(event, timeout=None):
        if event is over or timeout is None or not waiting.is_set():  # None: a thread is started
            return wait(event, timeout)
        monkeypatch.undo()
        over.set()
        raise stop

    def work(rank):
        try:
            if rank == 1:
                waiting.set()
                return over.wait(10)
            return meet(rank)
        finally:
            ended.append(rank)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(stop):
        pair.do(work)
    assert sorted(ended) == [0, 1]
