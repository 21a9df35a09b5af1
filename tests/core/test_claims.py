"""One worker at a run: who has it, who had it, and who takes it over."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from fedloom.experiments.claims import claimed, is_claimed


@pytest.fixture(scope="module")
def gone():
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def left_by(folder, host, process, age=0.0):
    file = folder / ".claim"
    file.write_text(f"{host} {process} 00")
    os.utime(file, (time.time() - age,) * 2)


def test_a_run_has_one_worker_and_is_free_afterwards(tmp_path):
    folder = tmp_path / "run"
    with claimed(folder) as first, claimed(folder) as second:
        assert first and not second and is_claimed(folder)
    assert not is_claimed(folder) and list(folder.iterdir()) == []
    with pytest.raises(ZeroDivisionError), claimed(folder):
        _ = 1 / 0
    with claimed(folder) as again:
        assert again


def test_a_worker_that_was_killed_loses_its_run(tmp_path, gone):
    host = socket.gethostname()
    for left, free in {
        (host, os.getpid(), 0): False,
        (host, gone, 0): True,
        ("elsewhere", gone, 0): False,  # nothing is known of its processes
        ("elsewhere", gone, 3600): True,
        (host, os.getpid(), 3600): True,  # the number of another process by now
    }.items():
        left_by(tmp_path, *left)
        assert is_claimed(tmp_path) is not free
        with claimed(tmp_path) as ours:
            assert ours is free


@pytest.fixture
def in_small_steps():
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_of_many_that_find_a_run_abandoned_one_gets_it(tmp_path, gone, in_small_steps):
    for _ in range(100):
        left_by(tmp_path, socket.gethostname(), gone)
        together, got = threading.Barrier(8), []

        def take(together=together, got=got):
            together.wait()
            with claimed(tmp_path) as ours:
                got.append(ours)
                together.wait()  # nobody lets go before all have tried

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(got) == 1 and not is_claimed(tmp_path)
