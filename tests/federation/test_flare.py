"""The federation on real FLARE processes: one deployment, what it gives and what it refuses."""

import socket
import ssl

import numpy as np
import pytest

import fedloom as fl
from federation.deployment import deployed
from federation.harness import NAMES, clients, settings
from fedloom.engines.flare import trial, watching
from fedloom.engines.flare.kits import Kit
from fedloom.engines.flare.provisioning import Project, provision
from fedloom.errors import FederationError

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("kits"), methods=["scaffold"]) as made:
        yield made


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


def test_secure_sums_with_the_certificates_of_the_kits(made, tmp_path):
    chosen = settings(federation={"sites": list(NAMES), "secure_aggregation": True})
    result = watching.follow(made.lead, chosen, tmp_path / "result")
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    np.testing.assert_allclose(result.model, simulated.model, rtol=1e-5, atol=1e-6)
    assert not any("secure sum" in note or "lost" in note for note in result.about["notes"])
    said = [list((kit.path / "states").glob("*/sum-6-1")) for kit in made.sites]
    assert [len(files) for files in said] == [1, 1, 1]


def test_a_method_that_is_not_allowed_is_refused_by_the_sites(made, tmp_path):
    algorithm = {"key": "fedavg", "lr": 0.1}
    chosen = settings(algorithm=algorithm, federation={"sites": list(NAMES)})
    with pytest.raises(FederationError, match="the methods scaffold; the job wants 'fedavg'"):
        watching.follow(made.lead, chosen, tmp_path / "result")


def test_a_role_without_the_right_may_not_submit(made, tmp_path):
    chosen = settings(federation={"sites": list(NAMES)})
    with pytest.raises(FederationError, match="not authorized"):
        watching.follow(member(made), chosen, tmp_path / "result")


def test_tls_refuses_a_certificate_of_another_authority(made, tmp_path):
    project = Project(name="trial", sites=NAMES, people={"eve@fedloom.local": "lead"})
    eve = next(kit for kit in provision(project, tmp_path / "other") if kit.role == "person")
    assert handshake(made.server, made.lead)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(made.server, eve, trusting=made.lead, seconds=60)


def handshake(server: Kit, person: Kit, trusting: Kit | None = None, seconds: float = 1) -> bool:
    """Whether the server answers a person's certificate with more than an alert, within seconds."""
    import json

    facts = json.loads((server.path / "startup" / "fed_server.json").read_text())
    port = int(facts["servers"][0]["service"]["target"].rpartition(":")[2])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations((trusting or person).path / "startup" / "rootCA.pem")
    startup = person.path / "startup"
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    with (
        socket.create_connection(("localhost", port), 60) as plain,
        context.wrap_socket(plain) as secured,
    ):
        secured.settimeout(seconds)
        try:
            return secured.recv(1) != b""  # in TLS 1.3 a refusal comes after the handshake
        except TimeoutError:
            return True  # the server waits for what we have to say
