"""Who is let in, and what is said where somebody is not: by TLS, without FLARE behind the door."""

import contextlib
import resource
import shutil
import socket
import ssl
import time

import pytest

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")

from federation.doors import door, lead_to, own_door, params
from fedloom.cli.main import main
from fedloom.errors import FederationError
from fedloom.federation import reaching
from fedloom.federation.people.trial import free_port
from fedloom.federation.provisioning import Project, provision
from fedloom.federation.tls import OWN_SCHEME, SCHEME, context_of

POLICY = {"methods": ["fedavg"], "problems": ["logistic"]}


def provisioned(folder, name="hospitals"):
    project = Project(
        name=name, sites=["berlin", "lyon"], people={"anna@example.org": "lead"}, policy=POLICY
    )
    return {kit.name: kit for kit in provision(project, folder)}


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return provisioned(tmp_path_factory.mktemp("kits"))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    return provisioned(tmp_path_factory.mktemp("others"), "banks")


def speaks(port, context):
    """Whether somebody who knocks with this context is let in."""
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        with context.wrap_socket(plain) as secured:
            reaching._await_welcome(secured)
            return secured.version()


@pytest.mark.parametrize("of", ["berlin", "anna@example.org"])
def test_a_kit_of_the_project_is_let_in(of, kits):
    with door(kits["localhost"]) as port:
        lead_to(kits[of], port)
        reaching.knock(kits[of])


def test_tls_1_2_is_refused_and_1_3_is_not(kits):
    with door(kits["localhost"]) as port:
        newest = context_of(params(kits["berlin"], port), ssl.PROTOCOL_TLS_CLIENT)
        assert speaks(port, newest) == "TLSv1.3"
        older = context_of(params(kits["berlin"], port), ssl.PROTOCOL_TLS_CLIENT)
        older.minimum_version = older.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            speaks(port, older)


def test_between_its_own_processes_a_host_takes_its_own_certificate_only(kits):
    with own_door(kits["berlin"]) as port:
        own = params(kits["berlin"], port, OWN_SCHEME)
        assert speaks(port, context_of(own, ssl.PROTOCOL_TLS_CLIENT)) == "TLSv1.3"
        other = params(kits["lyon"], port, SCHEME)  # of the same authority
        with pytest.raises((ssl.SSLError, ConnectionError)):
            speaks(port, context_of(other, ssl.PROTOCOL_TLS_CLIENT))
        with socket.create_connection(("127.0.0.1", port), 10) as plain:
            plain.sendall(b"NOTLS" * 20)
            with contextlib.suppress(ConnectionError):
                assert plain.recv(100)[:1] in (b"", b"\x15")  # nothing, or an alert
    with own_door(kits["lyon"]) as port:  # nor does a job's process talk to another parent
        own = params(kits["berlin"], port, OWN_SCHEME)
        with pytest.raises(ssl.SSLCertVerificationError):
            speaks(port, context_of(own, ssl.PROTOCOL_TLS_CLIENT))


def test_a_visitor_who_says_nothing_keeps_nobody_waiting(kits):
    with door(kits["localhost"]) as port, contextlib.ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        lead_to(kits["berlin"], port)
        began = time.monotonic()
        reaching.knock(kits["berlin"])
        assert time.monotonic() - began < 5


def test_status_with_a_kit_of_another_project_says_so_at_once(kits, others, capsys):
    anna = others["anna@example.org"]
    with door(kits["localhost"]) as port:
        lead_to(anna, port)
        began = time.monotonic()
        assert main(["status", "--kit", str(anna.path)]) == 2
        assert time.monotonic() - began < 10
    assert "is not that of banks, by its certificate" in capsys.readouterr().err


def test_a_certificate_that_the_server_refuses_is_called_refused(kits, others, tmp_path):
    shutil.copytree(others["berlin"].path, tmp_path / "berlin")
    kit = others["berlin"]._replace(path=tmp_path / "berlin")
    # It trusts the server's authority, and its own certificate is by another.
    root = kits["localhost"].path / "startup" / "rootCA.pem"
    shutil.copy(root, kit.path / "startup" / "rootCA.pem")
    with door(kits["localhost"]) as port:
        lead_to(kit, port)
        with pytest.raises(
            FederationError, match=r"refuses the certificate of berlin .*UNKNOWN_CA"
        ):
            reaching.knock(kit)


def joined(kit, tmp_path, *options):
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n1,0\n")
    return main(["join", str(kit.path), "--data", str(rows), *options])


def test_joining_without_a_server_waits_and_does_not_claim_to_take_part(kits, tmp_path, capsys):
    port = free_port()
    lead_to(kits["lyon"], port)
    assert joined(kits["lyon"], tmp_path, "--wait", "1.5") == 2
    said = capsys.readouterr()
    waiting = f"waiting for the server at localhost:{port} (Connection refused), 1.5 s at most"
    assert said.out.count(waiting) == 1 and "takes part" not in said.out
    assert f"no server at localhost:{port} (Connection refused)" in said.err
    assert "Gave up after 1.5 s" in said.err


def test_joining_the_server_of_another_project_is_an_error(kits, others, tmp_path, capsys):
    with door(others["localhost"]) as port:
        lead_to(kits["lyon"], port)
        assert joined(kits["lyon"], tmp_path) == 2
    said = capsys.readouterr()
    assert "takes part" not in said.out and "is not that of hospitals" in said.err


def test_serving_at_a_port_that_is_taken_is_an_error(kits, capsys):
    with door(kits["localhost"]) as port:
        lead_to(kits["localhost"], port)
        assert main(["serve", str(kits["localhost"].path)]) == 2
    said = capsys.readouterr()
    assert "serving" not in said.out
    assert f"the server cannot have port {port}: Address already in use" in said.err


def test_a_server_that_cannot_write_says_so_at_the_door(kits):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with door(kits["localhost"]) as port:
        lead_to(kits["berlin"], port)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(reaching.CannotWriteError, match="cannot write to its disk"):
                reaching.knock(kits["berlin"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        reaching.knock(kits["berlin"])  # and when there is room again, it is well
