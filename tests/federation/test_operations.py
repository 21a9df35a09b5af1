"""Running a federation from day to day: locks, queues, leftovers, versions; without processes."""

import errno
import json
import os
import subprocess
import sys
import types

import pytest

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")

import fedloom
from federation.harness import federation, refused, settings
from fedloom import version
from fedloom.cli.main import main
from fedloom.errors import FederationError, RefusedError
from fedloom.federation import components
from fedloom.federation.abandoned import end_abandoned
from fedloom.federation.job import OUTCOME, TOPIC, check_version, job_of
from fedloom.federation.kits import Kit
from fedloom.federation.locks import LOCK, held
from fedloom.federation.people import submission
from fedloom.federation.processes import RIGHTS
from fedloom.federation.reaching import CannotWriteError


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path, "site", "berlin", "example", "hospitals")


def test_a_kit_is_held_by_one_command_at_a_time(kit):
    with held(kit):
        with pytest.raises(FederationError, match=rf"in use already, by the process {os.getpid()}"):
            with held(kit):
                pass
        assert (kit.path / LOCK).stat().st_mode & 0o077 == 0
    with held(kit):  # and after it, by the next
        pass


def test_a_lock_dies_with_its_holder(kit):
    holder = (
        "import sys, time; from pathlib import Path\n"
        "from fedloom.federation.kits import Kit; from fedloom.federation.locks import held\n"
        "with held(Kit(Path(sys.argv[1]), 'site', 'berlin', 'example', 'hospitals')):\n"
        "    print('held', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", holder, str(kit.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(FederationError, match=f"by the process {process.pid}"), held(kit):
            pass
        process.kill()
        process.wait()
        with held(kit):
            assert (kit.path / LOCK).read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("verb", ["serve", "join"])
def test_a_second_command_on_a_kit_is_refused_at_once(verb, tmp_path, capsys):
    (tmp_path / "p.toml").write_text(
        'name = "p"\nsites = ["berlin"]\n[people]\n"a@b.org" = "lead"\n'
    )
    assert main(["provision", str(tmp_path / "p.toml"), "--out", str(tmp_path / "k")]) == 0
    path, role = tmp_path / "k" / {"serve": "server", "join": "berlin"}[verb], verb
    with held(Kit(path, role, "", "", "")):
        assert main([verb, str(path)]) == 2
    assert f"{path} is in use already" in capsys.readouterr().err


def test_jobs_of_a_killed_server_have_ended(kit):
    states = {"a": "RUNNING", "b": "FINISHED:COMPLETED", "c": "SUBMITTED", "d": "DISPATCHED"}
    for name, state in states.items():
        (kit.path / "jobs" / name).mkdir(parents=True)
        facts = {"job_id": name, "status": state, "name": "run"}
        (kit.path / "jobs" / name / "meta").write_text(json.dumps(facts))
    (kit.path / "jobs" / "e").mkdir()
    (kit.path / "jobs" / "e" / "meta").write_text("not JSON")
    assert end_abandoned(kit) == ["a", "d"]
    metas = {n: json.loads((kit.path / "jobs" / n / "meta").read_text()) for n in states}
    assert metas["a"] == {"job_id": "a", "status": "FINISHED:ABORTED", "name": "run"}
    assert metas["d"]["status"] == "FINISHED:ABORTED"
    assert metas["b"]["status"] == states["b"] and metas["c"]["status"] == "SUBMITTED"
    assert end_abandoned(kit) == []


class Server:
    """What a follower sees of a server, step by step."""

    def __init__(self, *steps):
        self.steps = list(steps)  # the state of the job, of the other job, and what the job tells
        self.aborted = []

    def state(self, job):
        if len(self.steps) > 1:
            self.steps.pop(0)
        return self.steps[0][0]

    def jobs(self):
        rows = {"mine": self.steps[0][0], "other": self.steps[0][1]}
        return [{"job_id": id, "name": f"run {id}", "status": s} for id, s in rows.items()]

    def status(self, job):
        return self.steps[0][2]

    def sites(self):
        return {}

    def abort(self, job):
        self.aborted.append(job)


@pytest.fixture
def watch(kit, monkeypatch):
    """A follower whose seconds pass quickly."""
    clock = types.SimpleNamespace(now=0.0)

    def sleep(seconds):
        clock.now += seconds

    time = types.SimpleNamespace(sleep=sleep, monotonic=lambda: clock.now)
    monkeypatch.setattr(submission, "time", time)
    said = []
    follower = submission._Watch(
        kit, settings(), submission.Record(kit, "run"), False, submission.Silent(), said.append
    )
    return follower, said


def test_a_run_waits_in_the_queue_as_long_as_another_one_goes(watch):
    follower, said = watch
    waiting = [("SUBMITTED", "RUNNING", None)] * 1000  # seconds, many times the patience
    turn = [("RUNNING", "FINISHED:COMPLETED", None), ("FINISHED:COMPLETED", "", None)]
    server = Server(*waiting, *turn)
    assert follower._watch(server, "mine")
    assert server.aborted == []
    assert said == ["waiting in the server's queue, for the end of run other"]


def test_a_run_that_waits_for_nobody_is_submitted_anew(watch):
    follower, _ = watch
    server = Server(("SUBMITTED", "FINISHED:COMPLETED", None))  # FLARE finds too few sites
    assert not follower._watch(server, "mine") and server.aborted == ["mine"]


def test_a_run_in_the_queue_is_gone_on_with_and_not_ended(watch):
    follower, _ = watch
    follower.record.jobs = ["mine"]
    server = Server(("SUBMITTED", "RUNNING", None))
    assert follower._still_running(server) == "mine" and server.aborted == []


def test_a_follower_is_told_that_the_server_could_not_write(watch):
    follower, _ = watch
    told = {"round": 3, "noted": 0, "notes": [], "failed": "No space left on device"}
    with pytest.raises(FederationError, match="No space left"):
        follower._watch(Server(("RUNNING", "", told)), "mine")


def test_a_follower_does_not_wait_for_a_server_that_cannot_write(watch, monkeypatch):
    def connected(kit, **options):
        raise CannotWriteError("the server cannot write to its disk.")

    monkeypatch.setattr(submission, "connected", connected)
    with pytest.raises(CannotWriteError):
        watch[0]._await_server()


def on_flare(monkeypatch, folder):
    """The surroundings that a job's class finds in FLARE's process."""
    commands = {}
    engine = types.SimpleNamespace(register_app_command=commands.__setitem__)
    context = types.SimpleNamespace(get_job_id=lambda: "job", get_engine=lambda: engine)
    meta = folder / "meta.json"
    meta.write_text('{"submitter_name": "lead@fedloom.local"}')
    workspace = types.SimpleNamespace(
        get_run_dir=lambda job: str(folder),
        get_root_dir=lambda: str(folder),
        get_job_meta_path=lambda job: str(meta),
    )
    publish = components.collab
    around = types.SimpleNamespace(
        fl_ctx=context, workspace=workspace, clients=[], main=publish.main, publish=publish.publish
    )
    monkeypatch.setattr(components, "collab", around)
    return commands


def test_a_full_disk_at_the_server_is_told_while_the_job_still_lives(monkeypatch, tmp_path):
    commands, heard = on_flare(monkeypatch, tmp_path), []

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(components.Conductor, "run", full)
    monkeypatch.setattr(components, "write_json", full)  # nor can an outcome be left
    linger = types.SimpleNamespace(sleep=lambda s: heard.append(commands[TOPIC]("", "", None)))
    monkeypatch.setattr(components, "time", linger)
    side = components.ServerSide(job_of(settings(), "a-run").text(), fedloom.__version__)
    with pytest.raises(OSError, match="No space left"):
        side.run()
    (told,) = heard
    assert told["failed"].startswith("the server could not read or write its files: No space left")


@pytest.mark.parametrize("role", RIGHTS)
def test_a_run_tells_its_metrics_to_who_submitted_it(role):
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    rights = FLAuthorizer("example", {"format_version": "1.0", "permissions": RIGHTS})
    anna, other = Person("anna", "example", "lead"), Person("other", "example", role)

    def may(right, who, submitter):
        return rights.authorize(AuthzContext(right, who, submitter))[0]

    for right in ("app_command", "download_job"):
        assert may(right, anna, anna) and not may(right, other, anna)
    assert may("list_jobs", other, anna)  # that it runs, all may see


def test_versions_agree_in_their_first_two_numbers(monkeypatch):
    for own, other, fits in (
        ("0.1.0", "0.1.9", True),
        ("0.1.0", "0.2.0", False),
        ("1.4.0", "1.4.2", True),
        ("1.4.0", "1.5.0", False),
        ("1.4.0", "2.4.0", False),
        ("0.1.0", None, False),
    ):
        monkeypatch.setattr(version, "__version__", own)
        if fits:
            check_version(other, "the server")
            continue
        with pytest.raises(RefusedError) as error:
            check_version(other, "the server")
        assert own in str(error.value) and (other or "no version") in str(error.value)


def test_a_site_refuses_a_server_of_another_version(tmp_path):
    conductor, wires = federation(tmp_path, settings())
    for wire in wires.values():
        answer = wire.service.call
        wire.service.call = lambda verb, facts, body, answer=answer: answer(
            verb, json.dumps({**json.loads(facts), "version": "9.8.7"}), body
        )
    own = fedloom.__version__
    who = "berlin, lyon and torino do not take part"
    refused(conductor, f"{who}: the server has fedloom 9.8.7 and this end has fedloom {own}")


def test_a_server_refuses_a_job_of_another_version(monkeypatch, tmp_path):
    on_flare(monkeypatch, tmp_path)
    components.ServerSide(job_of(settings(), "a-run").text(), "9.8.7").run()
    outcome = json.loads((tmp_path / OUTCOME).read_text())
    text = json.dumps(outcome)
    assert "whoever submitted the run has fedloom 9.8.7" in text and fedloom.__version__ in text
