"""What a server can make of a person who submits, follows and fetches: nothing but a result."""

import json
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from nvflare.fuel.flare_api import flare_api
from nvflare.fuel.hci.client.api import AdminAPI
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.reg import CommandRegister

from federation.harness import conductor, federation, settings
from fedloom.errors import FederationError, RefusedError
from fedloom.federation.job import job_of
from fedloom.federation.people import transfers
from fedloom.federation.people.session import Session

JOB = "3f8d967d-085b-45b7-8de9-fcf955fa1ebd"


class Api:
    """A server that says what its operator likes."""

    client_key = None

    def __init__(self, module, told):
        self.module, self.told = module, {"source_fqcn": "server", **told}

    def server_execute(self, command, **options):
        return {"status": "SUCCESS", "meta": self.told}

    def do_command(self, command):
        return self.module.pull_binary_file(command.split(" "), self.context())

    def context(self):
        entry = SimpleNamespace(usage="", full_command_name=lambda: "download_job")
        return SimpleNamespace(
            get_command_entry=lambda: entry,
            get_api=lambda: self,
            get_command=lambda: "",
            set_requester=lambda receiver: receiver.send_request(self, None, self.context()),
            set_command_result=lambda result: None,
        )

    def download_file(self, source, reference, path):
        self.written = path
        with open(path, "w") as file:
            return file.write("the attacker's key")

    def debug(self, text):
        pass

    def fire_session_event(self, *event):
        pass


LIES = {
    "a whole path": {"files": [["{out}/keys", "ref"]], "tx_id": "tx"},
    "a way up": {"files": [["../../keys", "ref"]], "tx_id": "tx"},
    "a transfer that is a way up": {"files": [["job.zip", "ref"]], "tx_id": "x/../../../home"},
    "no name": {"files": [["", "ref"]], "tx_id": "tx"},
    "a result that lies elsewhere": {"files": [], "location": "{out}/home"},
}


@pytest.mark.parametrize("told", LIES.values(), ids=LIES)
def test_a_server_writes_moves_and_deletes_nothing_of_who_fetches(told, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "keys").write_text("their own")
    down = tmp_path / "kit" / "transfer"
    down.mkdir(parents=True)
    (down / f"{JOB}__tx").mkdir()
    module = transfers.Transfers(str(down), str(down))
    api = Api(module, json.loads(json.dumps(told).replace("{out}", str(home))))
    with pytest.raises(transfers.FederationError, match=r"the server (named a file|says that)"):
        module.pull_folder(["download_job", JOB], api.context())
    assert not hasattr(api, "written")
    assert (home / "keys").read_text() == "their own"


@pytest.fixture
def person(tmp_path):
    """FLARE's client of a person, to whom the server has told its list of commands."""

    def told(*rows):
        (tmp_path / "transfer").mkdir(exist_ok=True)
        module = transfers.Transfers(str(tmp_path), str(tmp_path / "transfer"))
        flare = object.__new__(AdminAPI)
        flare.server_cmd_reg, flare.client_cmd_reg = CommandRegister(flare), CommandRegister(flare)
        flare.all_cmds, flare.cmd_modules, flare.server_sess_active = [], [module], True
        flare.in_logout, flare._debug, flare.client_key = False, False, None
        flare.sent, flare.said = [], {}
        table = SimpleNamespace(rows=[[], *([*row, "", "", "none", *more] for *row, more in rows)])

        def server_execute(command, processor=None, cmd_entry=None, cmd_ctx=None, **options):
            if processor is not None:
                processor.process_table(SimpleNamespace(get_api=lambda: flare), table)
            elif cmd_ctx is not None:
                flare.sent.append(command)
            return {"status": "SUCCESS", "meta": {"status": "ok", "job_id": JOB, **flare.said}}

        flare.server_execute = server_execute
        assert flare._after_login()["status"] == "SUCCESS"
        session = object.__new__(flare_api.Session)
        session.api, session.upload_dir = flare, str(tmp_path)
        flare.closed, flare.session_expired_reason = False, None
        return Session(session), flare

    return told


@pytest.mark.parametrize("command", ["app_command", "get_job_meta", "list_jobs", "abort_job"])
def test_a_server_makes_no_command_one_that_sends_a_folder(command, person, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "keys").write_text("their own")
    _, flare = person(("job_mgmt", command, ["file_transfer.push_folder", "true"]))
    result = flare.do_command(f"{command} {home}")
    assert result["status"] == "ERROR_SYNTAX" and "not found" in result["details"]
    with pytest.raises(FederationError, match="a folder that was not handed in"):
        flare.do_command(f"submit_job {home}")
    assert not flare.sent and [file.name for file in home.iterdir()] == ["keys"]


def test_what_is_handed_in_is_sent_whatever_the_list_of_commands_says(person, tmp_path):
    job = tmp_path / "handed in" / "a-run"
    job.mkdir(parents=True)
    for rows in ([], [("job_mgmt", "submit_job", ["file_transfer.pull_folder", "true"])]):
        session, flare = person(*rows)
        assert session.submit(job) == JOB
        assert flare.sent == ["job_mgmt.submit_job a-run"]


def test_a_server_that_calls_a_fetch_its_own_command_moves_no_folder(person, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    session, flare = person(("job_mgmt", "download_job", []))
    flare.said = {"location": str(home)}
    with pytest.raises(FederationError, match="where nothing was fetched"):
        session.outcome(JOB)
    assert home.exists()


@pytest.mark.parametrize("id", ["/home/anna/.ssh", f"{JOB} -x", JOB.upper(), "", None, 7])
def test_a_job_that_has_no_id_enters_no_command(id):
    flare = Mock()
    flare.list_jobs.return_value = [{"job_id": id, "status": "RUNNING"}]
    flare.submit_job.return_value = id
    session = Session(flare)
    asked = [session.state, session.status, session.abort, session.outcome]
    for ask in (session.jobs, partial(session.submit, "folder"), *(partial(f, id) for f in asked)):
        with pytest.raises(FederationError, match="which is no id of a job"):
            ask()
    assert [name for name, *_ in flare.method_calls] == ["list_jobs", "submit_job"]


def test_what_a_server_refuses_is_told_as_a_sentence():
    def submit_job(folder):
        raise ValueError("the job has a file 'x'. Submit the run with fedloom.")

    session = Session(SimpleNamespace())
    with pytest.raises(FederationError, match=r"with fedloom\. See its log\.$"):
        session._asked(submit_job, "folder")


def test_sessions_fetch_in_this_way(monkeypatch):
    from nvflare.fuel.hci.client import file_transfer

    monkeypatch.setattr(file_transfer, "FileTransferModule", FileTransferModule)
    transfers.careful()
    assert file_transfer.FileTransferModule is transfers.Transfers


@pytest.mark.parametrize("resume", [True, False])
def test_a_run_is_gone_on_with_by_who_submitted_it(resume, tmp_path):
    """Whoever continues a run, or writes over it, gets its model and its sites' metrics."""
    own, wires = federation(tmp_path, settings())
    own.run()
    for submitter, refused in (("another@fedloom.local", True), (own.submitter, False)):
        job = job_of(settings(), "a-run", resume)
        again = conductor(job, wires, tmp_path, submitter)
        if refused:
            with pytest.raises(RefusedError, match="was submitted by somebody else"):
                again.run()
        else:
            assert again.run().status == "done"


@pytest.mark.parametrize("resume", [True, False])
def test_a_run_of_nobody_knows_whom_goes_on_for_nobody(resume, tmp_path):
    """It would be of who comes first."""
    own, wires = federation(tmp_path, settings())
    own.run()
    before = own.file.read_bytes()
    (own.file.parent / "submitter.json").unlink()
    job = job_of(settings(), "a-run", resume)
    for submitter in (own.submitter, "another@fedloom.local"):
        with pytest.raises(RefusedError, match=r"submitter.json .*is missing.*Submit it anew"):
            conductor(job, wires, tmp_path, submitter).run()
    assert [file.name for file in own.file.parent.iterdir()] == [own.file.name]
    assert own.file.read_bytes() == before
