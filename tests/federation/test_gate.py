"""FLARE hands messages on and follows orders of anybody: what passes here, and what does not."""

import logging
from types import SimpleNamespace

import pytest
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from fedloom.federation import gate
from fedloom.federation.site import process

JOB = "3f8d967d-085b-45b7-8de9-fcf955fa1ebd"
PERSON = f"_admin_{JOB}"  # as FLARE calls a session
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
