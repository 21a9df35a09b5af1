"""Certificates: for clocks that do not agree, renewed under the same keys, warned of in time."""

import datetime
import shutil
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")

from federation.doors import door, lead_to, params
from federation.harness import PROJECT
from fedloom.cli.main import main
from fedloom.errors import FederationError
from fedloom.exchange.secure.identity import Identity
from fedloom.federation import certificates, expiry, reaching
from fedloom.federation.kits import open_kit
from fedloom.federation.tls import context_of

FILES = ("server/startup/server.crt", "berlin/startup/client.crt", "lyon/startup/client.crt")
FILES += ("anna@example.org/startup/client.crt", "berlin/startup/rootCA.pem")
DAY = datetime.timedelta(days=1)


def now():
    return datetime.datetime.now(datetime.UTC)


def read(file):
    return x509.load_pem_x509_certificate(file.read_bytes())


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project.toml").write_text(PROJECT)
    assert provisioned(tmp_path) == 0
    return tmp_path / "kits"


def provisioned(folder, *options):
    return main(
        ["provision", str(folder / "project.toml"), "--out", str(folder / "kits"), *options]
    )


def renewed_for(kits, days):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "DAYS", days)
        assert provisioned(kits.parent, "--renew") == 0


@pytest.mark.parametrize("file", FILES)
def test_a_clock_that_is_slow_is_no_reason_to_refuse(file, project):
    certificate = read(project / file)
    assert certificate.not_valid_before_utc < now() - 0.99 * DAY
    assert certificate.not_valid_after_utc > now() + 359 * DAY


def test_a_chain_holds_by_a_clock_that_is_hours_slow(project):
    from cryptography.x509.verification import PolicyBuilder, Store

    server = read(project / "server/startup/server.crt")
    store = Store([read(project / "berlin/startup/rootCA.pem")])
    slow = now() - datetime.timedelta(hours=12)
    policy = PolicyBuilder().store(store).time(slow)
    policy.build_server_verifier(x509.DNSName("localhost")).verify(server, [])


def test_renewal_keeps_names_keys_authority_and_what_is_the_owners(project):
    before = {file: read(project / file) for file in FILES}
    keys = {file: file.read_bytes() for file in project.rglob("*.key")}
    policy = project / "berlin" / "policy.toml"
    policy.write_text('methods = ["scaffold"]\n')
    states = project / "berlin" / "states" / "a-run" / "3-1.safetensors"
    states.parent.mkdir(parents=True)
    states.write_bytes(b"state")
    assert provisioned(project.parent, "--renew") == 0
    for file, old in before.items():
        new = read(project / file)
        assert new.subject == old.subject and new.issuer == old.issuer
        numbers = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        assert new.public_key().public_bytes(*numbers) == old.public_key().public_bytes(*numbers)
        # The authority has years left, so its own certificate stays as it is.
        assert (new.serial_number != old.serial_number) == file.endswith(".crt")
    assert {file: file.read_bytes() for file in project.rglob("*.key")} == keys
    assert policy.read_text() == 'methods = ["scaffold"]\n' and states.read_bytes() == b"state"
    assert not [path for path in project.rglob("startup/*") if path.stat().st_mode & 0o077]


def test_a_site_with_the_old_certificate_and_one_with_the_new_get_on(project, tmp_path):
    shutil.copytree(project / "lyon", tmp_path / "lyon")  # its owner has not renewed it yet
    assert provisioned(project.parent, "--renew") == 0
    old, new = Identity(tmp_path / "lyon"), Identity(project / "berlin")
    new.check("lyon", old.certificate, old.sign(b"text"), b"text")
    old.check("berlin", new.certificate, new.sign(b"text"), b"text")
    lyon = open_kit(tmp_path / "lyon", "site")
    with door(open_kit(project / "server", "server")) as port:  # the server has
        for kit in (lyon, open_kit(project / "berlin", "site")):
            lead_to(kit, port)
            reaching.knock(kit)


def test_an_authority_that_ends_soon_is_renewed_too_under_its_key(project, tmp_path):
    old = read(project / "berlin/startup/rootCA.pem")
    renewed_for(project, 2000)  # as if of its ten years few were left
    new = read(project / "berlin/startup/rootCA.pem")
    assert new.serial_number != old.serial_number and new.subject == old.subject
    read(project / "lyon/startup/client.crt").verify_directly_issued_by(old)
    read(project / "lyon/startup/client.crt").verify_directly_issued_by(new)
    context_of(params(open_kit(project / "lyon", "site"), 1), ssl.PROTOCOL_TLS_CLIENT)


def test_renewal_needs_the_authority(project, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    options = ["--out", str(tmp_path / "elsewhere"), "--renew"]
    assert main(["provision", str(project.parent / "project.toml"), *options]) == 2
    assert "no other authority can renew certificates" in capsys.readouterr().err


def test_owners_are_warned_thirty_days_before(project):
    kit = open_kit(project / "berlin", "site")
    until = expiry.valid_until(kit)
    assert expiry.warning(kit, until - 31 * DAY) is None
    assert "berlin expires in 29 days" in expiry.warning(kit, until - 29.5 * DAY)
    with pytest.raises(FederationError, match="the certificate of berlin expired on"):
        expiry.warning(kit, until + DAY)


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "server"],
        ["join", "berlin", "--wait", "0"],
        ["status", "--kit", "anna@example.org"],
    ],
)
def test_commands_warn_and_then_go_on(command, project, capsys):
    renewed_for(project, 20)
    verb, *rest = command
    words = [str(project / word) if (project / word).exists() else word for word in rest]
    with door(open_kit(project / "server", "server")) as port:  # so that none gets further
        for name, role in (
            ("server", "server"),
            ("berlin", "site"),
            ("anna@example.org", "person"),
        ):
            lead_to(open_kit(project / name, role), port if role == "server" else 1)
        assert main([verb, *words]) == 2
    said = capsys.readouterr().err
    assert "expires in 19 days" in said or "expires in 20 days" in said
    assert "fedloom provision PROJECT.toml --renew" in said
