"""Ctrl-C at any moment of a run: none is lost, nothing breaks, and what was done is kept."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom import interrupts
from fedloom.protocol import algorithm
from tiers import thorough

PROGRAM = """
import json, sys
import numpy as np, jax
import fedloom as fl
from fedloom.rounds import native_meetings

if sys.argv[1] == "python":
    native_meetings.of = lambda size: None
rng = np.random.default_rng(0)
rows = [(rng.normal(size=(50, 20)), rng.integers(0, 2, 50)) for _ in range(8)]
clients = fl.data.from_arrays(rows)

def slowly(x):
    return np.float32(sum(1 for _ in range(5000)) / 5000)

@fl.protocol.algorithm
class Calls(fl.algorithms.FedAvg):
    # The interpreter is called by XLA, in the main thread where that is what computes.
    def round(self, hub, fed, key, /):
        hub, info = yield from super().round(hub, fed, key)
        one = jax.pure_callback(slowly, jax.ShapeDtypeStruct((), np.float32), hub.model[0])
        return hub._replace(model=one * hub.model), info

jax.config.update("jax_cpu_enable_async_dispatch", False)
method, problem = Calls(lr=0.1, local_steps=5), fl.problems.Logistic()

class Ready:  # to be pressed: before, a press ends the program as any other
    told = False
    def advance(self, round, rate):
        if not self.told:
            print("ready", flush=True)
            self.told = True
    def evaluated(self, row): pass
    def close(self): pass

options = {"devices": int(sys.argv[2]), "lanes": 2, "batch_size": 4}
fl.simulate(method, problem, clients, rounds=3, **options)
for _ in range(int(sys.argv[3])):
    result = fl.simulate(method, problem, clients, rounds=10**7, progress=Ready(), **options)
    done = int(result.state.round)
    told = [result.status, done, result.rows[-1]["round"]]
    further = fl.simulate(method, problem, clients, rounds=done + 1, resume=result, **options)
    assert further.status == "done" and int(further.state.round) == done + 1
    print(json.dumps(told), flush=True)
"""


def told_by(meetings, devices, runs, tmp_path, seed=0):
    """What each of some runs told that was pressed once, at a random moment."""
    path, told, draw = tmp_path / "runs.py", [], random.Random(seed)
    path.write_text(PROGRAM)
    command = [sys.executable, path, meetings, str(devices), str(runs)]
    with (
        (tmp_path / "errors.txt").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            for line in process.stdout:
                if line == "ready\n":
                    time.sleep(0.6 * draw.random())
                    process.send_signal(signal.SIGINT)
                else:
                    told.append(json.loads(line))
            assert process.wait(60) == 0, (tmp_path / "errors.txt").read_text()
        finally:
            process.kill()
    return told


WAYS = [("native", 1), ("native", 2), ("python", 2)]


def assert_all_were_interrupted(told, runs):
    assert len(told) == runs
    for status, done, evaluated in told:
        assert status == "interrupted" and 0 <= done < 10**7 and evaluated == done


@pytest.mark.parametrize(("meetings", "devices"), WAYS)
def test_a_press_at_any_moment_ends_a_run_that_can_be_resumed(meetings, devices, tmp_path):
    assert_all_were_interrupted(told_by(meetings, devices, 4, tmp_path), 4)


@thorough
@pytest.mark.parametrize(("meetings", "devices"), WAYS)
def test_a_hundred_presses_on_a_busy_machine(meetings, devices, tmp_path):
    spin = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        assert_all_were_interrupted(told_by(meetings, devices, 100, tmp_path, seed=1), 100)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def press():
    signal.raise_signal(signal.SIGINT)


def test_a_press_is_noted_and_heeded_once():
    with interrupts.listening():
        assert not interrupts.pressed()
        press()
        press()  # which the same finger did
        assert interrupts.pressed() and not interrupts.pressed()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_presses_again_later_does_not_wait(monkeypatch):
    monkeypatch.setattr(interrupts, "_SAME", -1.0)
    with pytest.raises(KeyboardInterrupt), interrupts.listening():
        press()
        press()
        pytest.fail("the second press was to end this")


def test_a_press_that_nobody_heeded_is_handed_on():
    with pytest.raises(KeyboardInterrupt), interrupts.listening():
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_programs_own_stays():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with interrupts.listening():
            press()
            assert not interrupts.pressed()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_run_in_a_run_and_in_a_thread_leave_the_handler():
    def elsewhere():
        with interrupts.listening():
            told.append(interrupts.pressed())

    told = []
    with interrupts.listening():
        handler = signal.getsignal(signal.SIGINT)
        with interrupts.listening():
            assert signal.getsignal(signal.SIGINT) == handler
        assert signal.getsignal(signal.SIGINT) == handler
        press()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert told == [False] and interrupts.pressed()


@algorithm
class Pressed(fl.algorithms.FedAvg):
    """Presses in a callback of every round's, which XLA calls in the thread that waits."""

    def round(self, hub, fed, key, /):
        hub, info = yield from super().round(hub, fed, key)
        one = jax.pure_callback(
            lambda x: (press(), np.float32(1))[1],
            jax.ShapeDtypeStruct((), np.float32),
            hub.model[0],
        )
        return hub._replace(model=one * hub.model), info


@pytest.mark.parametrize("apart", [1.0, -1.0])
def test_a_press_in_a_callback_is_no_error_of_xlas(monkeypatch, apart):
    """Noted, or if it is the second one raised there, which XLA makes an error of its own of."""
    monkeypatch.setattr(interrupts, "_SAME", apart)
    clients = fl.data.from_arrays([(np.eye(4), np.array([0, 1, 0, 1]))] * 3)
    problem = fl.problems.Logistic()
    result = fl.simulate(Pressed(lr=0.1), problem, clients, rounds=1000, devices=1)
    assert result.status == "interrupted" and result.state.round < 1000
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_another_kind_is_none():
    assert interrupts.is_interrupt(KeyboardInterrupt())
    assert not interrupts.is_interrupt(RuntimeError("RESOURCE_EXHAUSTED: out of memory"))
