"""FLARE hands messages on and follows orders of anybody: what passes here, and what does not."""

import json
import logging
from types import SimpleNamespace

import pytest
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.utils.admin_name_utils import new_admin_client_name
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from federation.harness import conductor, federation, settings
from fedloom.errors import RefusedError
from fedloom.federation import gate
from fedloom.federation.job import job_of
from fedloom.federation.people import transfers
from fedloom.federation.site import process

JOB = "3f8d967d-085b-45b7-8de9-fcf955fa1ebd"
PERSON = new_admin_client_name()
PASSES = [  # here, by way of, from, to
    ("server", "lyon", "lyon", "server"),
    ("server", f"lyon.{JOB}", f"lyon.{JOB}", f"server.{JOB}"),
    ("server", PERSON, PERSON, "server"),
    ("server", f"server.{JOB}", f"server.{JOB}", f"lyon.{JOB}"),
    (f"server.{JOB}", "server", f"lyon.{JOB}", f"server.{JOB}"),
    ("lyon", "server", "server", "lyon"),
    ("lyon", "server", f"server.{JOB}", f"lyon.{JOB}"),
    ("lyon", f"lyon.{JOB}", f"lyon.{JOB}", f"server.{JOB}"),
    (f"lyon.{JOB}", "lyon", f"server.{JOB}", f"lyon.{JOB}"),
    (PERSON, "server", "server", PERSON),
]
DOES_NOT = {
    "a site asks another, at the server": ("server", "berlin", "berlin", "lyon"),
    "a person asks a site, at the server": ("server", PERSON, PERSON, "lyon"),
    "a site's job asks another's": ("server", f"berlin.{JOB}", f"berlin.{JOB}", f"lyon.{JOB}"),
    "a site passes for the server": ("server", "berlin", "server", "lyon"),
    "a site passes for another": ("server", "berlin", "lyon", "server"),
    "a site asks another, at that site": ("lyon", "server", "berlin", "lyon"),
    "a person asks a site, at that site": ("lyon", "server", PERSON, "lyon"),
    "the server passes for the site's job": ("lyon", "server", f"lyon.{JOB}", "lyon"),
    "a site asks a site's job": (f"lyon.{JOB}", "lyon", f"berlin.{JOB}", f"lyon.{JOB}"),
    "a site asks a person": (PERSON, "server", "berlin", PERSON),
    "a site that is called nearly so": ("lyon", "server", "server2", "lyon"),
    "no name at all": ("lyon", "", "", "lyon"),
}


@pytest.mark.parametrize("names", PASSES)
def test_what_a_run_says_passes(names):
    assert gate.may_pass(*names)


@pytest.mark.parametrize("names", DOES_NOT.values(), ids=DOES_NOT)
def test_what_participants_say_to_one_another_does_not(names):
    assert not gate.may_pass(*names)


def test_what_may_not_pass_does_not_reach_flare(monkeypatch, caplog):
    heard = []

    def received(cell, endpoint, connection, message):
        heard.append(message)

    monkeypatch.setattr(CoreCell, "_process_received_msg", received)
    gate.guard()
    gate.guard()  # all the same
    cell = SimpleNamespace(my_info=SimpleNamespace(fqcn="lyon"))
    named = {MessageHeaderKey.ORIGIN: "server", MessageHeaderKey.DESTINATION: "lyon"}
    for headers in (named, {**named, MessageHeaderKey.ORIGIN: "berlin"}, {}):
        with caplog.at_level(logging.WARNING, "fedloom"):
            message = CellMessage(headers)
            CoreCell._process_received_msg(cell, SimpleNamespace(name="server"), None, message)
    assert [message.headers for message in heard] == [named]
    assert "a message of 'berlin' for 'lyon', by way of 'server', was dropped" in caplog.text


class Silent(process.SiteAgent):
    """The agent of a site, without a network."""

    def __init__(self):
        self.processors, self.auditor, self.app_ctx = {}, None, None


def test_a_site_follows_no_order_but_those_of_a_run(monkeypatch):
    agent = Silent()
    for processor in ClientRequestProcessors.request_processors:
        agent.register_processor(processor)
    assert set(agent.processors) == process.ORDERS
    assert not {"sys.shell", "train.delete_run"} & process.ORDERS
    for topic in ("sys.shell", "train.delete_run", "train.restart", "sys.configure_site_log"):
        order = Message(topic, "cat policy.toml")
        order.set_header(RequestHeader.JOB_ID, JOB)
        assert agent._dispatch_request(CellMessage({}, order)).payload.body == "invalid_request"


def test_a_job_is_called_by_its_number_and_not_as_a_folder_of_the_kit(monkeypatch):
    followed = []
    monkeypatch.setattr(
        FedAdminAgent, "_dispatch_request", lambda agent, request: followed.append(request)
    )
    for job in (JOB, "local", "states", "../lyon", f"{JOB}/..", JOB.upper(), None, 7):
        for meta in (None, {"job_id": job}, {"job_id": "another"}):
            order = Message("train.start_job", b"")
            if job is not None:
                order.set_header(RequestHeader.JOB_ID, job)
            if meta is not None:
                order.set_header(RequestHeader.JOB_META, meta)
            Silent()._dispatch_request(CellMessage({}, order))
    assert [request.payload.get_header(RequestHeader.JOB_ID) for request in followed] == [JOB] * 2


def test_a_site_deploys_what_fedloom_writes_alone():
    order = Message("train.deploy", b"no archive")
    order.set_header(RequestHeader.JOB_ID, JOB)
    answer = Silent()._dispatch_request(CellMessage({}, order))
    assert "did not write are not taken" in answer.payload.body


ASKS = {  # here, from, channel, topic: whether it is followed
    ("server", "lyon", "task", "heart_beat"): True,
    (f"server.{JOB}", f"lyon.{JOB}", "server_command", "get_task"): True,
    (f"server.{JOB}", "server", "server_command", "abort"): True,
    ("server", PERSON, "hci_channel", "command"): True,
    ("server", PERSON, "task", "register"): True,
    ("lyon", "server", "admin", "admin"): True,
    (f"server.{JOB}", PERSON, "server_command", "abort"): False,
    (f"server.{JOB}", PERSON, "aux_communication", "x"): False,
    (f"server.{JOB}", f"lyon.{JOB}", "server_command", "abort"): False,
    (f"server.{JOB}", "lyon.another", "server_command", "get_task"): False,
    ("server", PERSON, "task", "report_job_failure"): False,
    ("server", "lyon", "server_parent_listener", "get_clients"): False,
    ("server", PERSON, "_net_manager", "stop"): False,
}


@pytest.mark.parametrize("asked", ASKS, ids=" ".join)
def test_what_is_for_the_servers_own_processes_is_done_for_nobody_else(asked):
    assert gate.may_ask(*asked) == ASKS[asked]


def test_a_request_within_a_bulk_or_in_pieces_is_looked_at_too(monkeypatch):
    followed = []
    monkeypatch.setattr(CoreCell, "_process_received_msg", lambda *_: None)
    monkeypatch.setattr(CoreCell, "_process_request", lambda _, by, request: followed.append(by))
    gate.guard()
    cell = SimpleNamespace(my_info=SimpleNamespace(fqcn=f"server.{JOB}"))
    keys = MessageHeaderKey
    direct = {keys.CHANNEL: "server_command", keys.TOPIC: "abort"}
    pieces = {keys.CHANNEL: "sm__STREAM", keys.TOPIC: "sm__DATA"}
    pieces |= {"sm__ch": "server_command", "sm__tp": "abort"}
    for headers in (direct, pieces):
        for origin in (PERSON, "server"):
            CoreCell._process_request(cell, origin, CellMessage(headers))
    assert followed == ["server"] * 2


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
