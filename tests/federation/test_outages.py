"""What operators meet, on real processes: second commands, killed servers, queues, full disks."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")

import psutil

from federation.deployment import Follower, deployed, first_process, job_process, restart
from federation.harness import NAMES, clients, settings
from fedloom.errors import FederationError
from fedloom.federation.people import submission, trial
from fedloom.federation.people.session import connected
from fedloom.federation.processes import processes_of, stop

pytestmark = [
    pytest.mark.deployment,
    # FLARE leaves sockets open where the other end was killed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def chosen(rounds):
    return settings(
        run={"rounds": rounds, "eval_every": 50}, federation={"sites": list(NAMES), "timeout": 8}
    )


@pytest.fixture
def made(tmp_path):
    with deployed(tmp_path / "kits") as made:
        yield made


@contextlib.contextmanager
def command(*words):
    """`fedloom ...` as a process of its own; ended by SIGTERM, as a service would be."""
    line = [sys.executable, "-u", "-m", "fedloom.cli.main", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate()


def line_with(process, text, seconds=90):
    until = time.monotonic() + seconds
    said = []
    while time.monotonic() < until:
        said.append(process.stdout.readline())
        if text in said[-1]:
            return said[-1]
        assert said[-1], f"it ended, and said {said}"
    raise AssertionError(f"{text!r} was not said: {said}")


def test_serve_and_join_say_what_is_so_and_a_second_join_harms_nobody(tmp_path):
    kits = trial.build(tmp_path / "k", clients(), methods=["scaffold"], problems=["logistic"])
    site = kits.sites[0]
    with command("join", site.path, "--wait", "60") as join:
        line_with(join, "waiting for the server at localhost:")
        with command("serve", kits.server.path) as serve:
            line_with(serve, "serving trial at port")
            line_with(join, "berlin takes part in trial with")
            with connected(kits.lead) as session:
                assert list(session.sites()) == ["berlin"]
            first = first_process(site).pid
            with command("join", site.path) as second:
                assert second.wait(60) == 2
                assert f"in use already, by the process {join.pid}" in second.stdout.read()
            assert first_process(site).pid == first and join.poll() is None
            # A command that is killed leaves FLARE's process behind; the next one clears it away.
            join.kill()
            join.wait()
            assert psutil.pid_exists(first)
            with command("join", site.path) as third:
                line_with(third, "berlin takes part in trial")
                assert first_process(site).pid != first and len(processes_of(site)) == 1
        assert not processes_of(kits.server)
    stop(site)
    assert not processes_of(site)


def test_a_run_waits_in_the_queue_for_the_one_before_it(made, tmp_path, monkeypatch):
    patience = 20.0  # enough for a job to start, and less than the first run takes
    monkeypatch.setattr(submission, "PATIENCE_SECONDS", patience)
    first = Follower(made, chosen(900), tmp_path / "first")
    first.await_round(5)
    second = Follower(made, chosen(20), tmp_path / "second")
    began = time.monotonic()
    assert first.join().final["round"] == 900
    waited = time.monotonic() - began
    assert second.join().final["round"] == 20
    assert waited > patience
    submitted, waiting, *_ = second.notes
    assert submitted.endswith("is submitted to berlin, lyon, torino")
    assert waiting.startswith("waiting in the server's queue, for the end of")
    with connected(made.lead) as session:
        assert [job["status"] for job in session.jobs()] == ["FINISHED:COMPLETED"] * 2


def test_after_a_killed_server_its_job_is_not_running(made, tmp_path):
    follower = Follower(made, chosen(400), tmp_path / "result")
    follower.await_round(5)
    with connected(made.lead) as session:
        (job,) = session.jobs()
        assert job["status"] == "RUNNING"
    processes = first_process(made.server), job_process(made.server)
    for process in processes:
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(processes, 10)
    restart(made.server)
    assert follower.join().final["round"] == 400
    with connected(made.lead) as session:
        states = {row["job_id"]: row["status"] for row in session.jobs()}
    assert states.pop(job["job_id"]) == "FINISHED:ABORTED"
    assert list(states.values()) == ["FINISHED:COMPLETED"]


@pytest.mark.parametrize("whose", ["job", "server"])
def test_a_full_disk_at_the_server_is_called_by_its_name(whose, made, tmp_path):
    follower = Follower(made, chosen(400), tmp_path / "first")
    follower.await_round(5)
    process = {"job": job_process, "server": first_process}[whose](made.server)
    # No file may grow beyond this, which processes see as they see a full disk.
    process.rlimit(psutil.RLIMIT_FSIZE, (100, psutil.RLIM_INFINITY))
    if whose == "job":
        with pytest.raises(FederationError, match=f"could not .* write .*: {os.strerror(27)}"):
            follower.join()
        return
    began = time.monotonic()
    with pytest.raises(FederationError, match="cannot write to its disk"):
        submission.follow(made.lead, chosen(3), tmp_path / "second")
    assert time.monotonic() - began < 30
    with pytest.raises(FederationError, match="cannot write to its disk"):
        follower.join()
    process.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
