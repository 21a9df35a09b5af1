"""The federation on real FLARE processes: one deployment, what it gives and what it refuses."""

import contextlib
import socket
import ssl
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from federation.deployment import deployed, first_process
from federation.harness import NAMES, clients, same_to_rounding, settings
from fedloom.errors import FederationError
from fedloom.federation.kits import Kit
from fedloom.federation.people import submission, trial
from fedloom.federation.people.session import connected
from fedloom.federation.provisioning import Project, provision
from fedloom.federation.reaching import address

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    allowed = {"methods": ["scaffold"], "problems": ["logistic", "supervised"]}
    with deployed(tmp_path_factory.mktemp("kits"), **allowed) as made:
        yield made


# A job takes processes of its own. That of one more network, or of one more refusal, differs in
# what sites without processes show as well: test_networks.py, test_conductor.py.
another_job = pytest.mark.thorough


def member(made) -> Kit:
    name = "member@fedloom.local"
    return made.lead._replace(path=made.lead.path.parent / name, name=name)


def test_the_trajectory_is_the_simulators(made, tmp_path):
    chosen = settings()
    result = fl.federate(
        chosen.algorithm,
        chosen.problem,
        kit=made.lead.path,
        label=trial.LABEL,
        out=tmp_path / "result",
        sites=NAMES,
        rounds=6,
        batch_size=4,
        eval_every=3,
    )
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    np.testing.assert_allclose(result.model, simulated.model, rtol=1e-6, atol=1e-7)
    assert result.final["bytes_up"] == simulated.final["bytes_up"]
    assert result.final["bytes_down"] == simulated.final["bytes_down"]
    assert result.final["loss"] == pytest.approx(simulated.final["loss"], rel=1e-5)


@another_job
def test_a_network_from_pytorch_is_trained_by_processes_that_have_only_its_data(made, tmp_path):
    file = Path(__file__).parents[1] / "graphs" / "table.safetensors"
    chosen = settings(
        problem={"kind": "supervised", "model": {"kind": "graph", "file": str(file)}, "l2": 0.1},
        federation={"sites": list(NAMES)},
    )
    result = submission.follow(made.lead, chosen, tmp_path / "result")
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    same_to_rounding(result.model, simulated.model)  # its dropout draws from the same keys
    assert result.final["bytes_up"] == simulated.final["bytes_up"]


def test_secure_sums_with_the_certificates_of_the_kits(made, tmp_path):
    chosen = settings(federation={"sites": list(NAMES), "secure_aggregation": True})
    result = submission.follow(made.lead, chosen, tmp_path / "result")
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    np.testing.assert_allclose(result.model, simulated.model, rtol=1e-5, atol=1e-6)
    assert not any("secure sum" in note or "lost" in note for note in result.about["notes"])
    said = [list((kit.path / "states").glob("*/sum-6-1")) for kit in made.sites]
    assert [len(files) for files in said] == [1, 1, 1]


@another_job
def test_a_method_that_is_not_allowed_is_refused_by_the_sites(made, tmp_path):
    algorithm = {"key": "fedavg", "lr": 0.1}
    chosen = settings(algorithm=algorithm, federation={"sites": list(NAMES)})
    with pytest.raises(FederationError, match="the methods scaffold; the job wants 'fedavg'"):
        submission.follow(made.lead, chosen, tmp_path / "result")


def test_a_role_without_the_right_may_not_submit(made, tmp_path):
    chosen = settings(federation={"sites": list(NAMES)})
    with pytest.raises(FederationError, match="kit may not do that"):
        submission.follow(member(made), chosen, tmp_path / "result")


def test_a_person_gives_a_site_no_orders_past_the_server(made, monkeypatch):
    """FLARE's server hands them on, and FLARE's site follows them: `cat` of any file, say."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.private.admin_defs import Message
    from nvflare.private.defs import CellChannel, new_cell_message

    from fedloom.federation.people.transfers import Transfers

    site = made.sites[0]
    with connected(member(made)) as session:
        honest = getattr(CoreCell._process_received_msg, "__wrapped__")  # noqa: B009
        monkeypatch.setattr(CoreCell, "_process_received_msg", honest)  # she would hear answers
        assert [type(module) for module in session._flare.api.cmd_modules] == [Transfers]
        cell = session._flare.api.cell
        order = Message("sys.shell", f"cat {site.path / 'policy.toml'}")
        asked = {"channel": CellChannel.CLIENT_MAIN, "topic": "admin", "timeout": 3.0}
        answer = cell.send_request(
            target=site.name, request=new_cell_message({}, order), **asked, optional=True
        )
    assert answer.payload is None
    assert "sys.shell" not in (site.path / "audit.log").read_text()
    dropped = f"for '{site.name}', by way of"
    assert dropped in (made.server.path / "console.txt").read_text()


def test_tls_refuses_a_certificate_of_another_authority(made, tmp_path):
    project = Project(name="trial", sites=NAMES, people={"eve@fedloom.local": "lead"})
    eve = next(kit for kit in provision(project, tmp_path / "other") if kit.role == "person")
    assert handshake(made.server, made.lead)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(made.server, eve, trusting=made.lead, seconds=60)


def test_the_server_speaks_tls_1_3_and_nothing_older(made):
    newest = handshake(made.server, made.lead, version=ssl.TLSVersion.TLSv1_3)
    assert newest
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        handshake(made.server, made.lead, version=ssl.TLSVersion.TLSv1_2)


def test_nothing_that_a_host_listens_to_is_in_the_clear(made):
    import psutil

    for kit in (made.server, *made.sites):
        open_here = first_process(kit).net_connections("tcp")
        ports = {c.laddr.port for c in open_here if c.status == psutil.CONN_LISTEN}
        assert len(ports) == (2 if kit.role == "server" else 1)  # sites listen to their own only
        own = ports - {address(kit)[1]}
        for port in own:
            with pytest.raises((ssl.SSLError, ConnectionError)):  # not even with a good certificate
                handshake(kit, made.lead, port=port, seconds=60)
        for port in ports:
            with socket.create_connection(("localhost", port), 60) as plain:
                plain.sendall(b"in the clear" * 10)
                with contextlib.suppress(ConnectionError):  # hung up
                    assert plain.recv(1) in (b"", b"\x15")  # or a TLS alert


def handshake(
    server: Kit,
    person: Kit,
    trusting: Kit | None = None,
    seconds: float = 1,
    version: ssl.TLSVersion | None = None,
    port: int | None = None,
) -> bool:
    """Whether the server answers a person's certificate with more than an alert, within seconds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if version is not None:
        context.minimum_version = context.maximum_version = version
    context.load_verify_locations((trusting or person).path / "startup" / "rootCA.pem")
    startup = person.path / "startup"
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    with (
        socket.create_connection(("localhost", port or address(server)[1]), 60) as plain,
        context.wrap_socket(plain) as secured,
    ):
        secured.settimeout(seconds)
        try:
            return secured.recv(1) != b""  # in TLS 1.3 a refusal comes after the handshake
        except TimeoutError:
            return True  # the server waits for what we have to say
