"""Kits and policies: what is written, what owners must give, what is said where it fails."""

import json
import os
from pathlib import Path

import pytest

from federation.harness import PROJECT, clients
from fedloom.cli.main import main
from fedloom.errors import FederationError, ParameterError, RefusedError, SettingsError
from fedloom.exchange.secure.identity import Identity
from fedloom.federation.kits import open_kit
from fedloom.federation.people import trial
from fedloom.federation.policy import Policy
from fedloom.federation.policy_file import read_policy, set_data
from fedloom.federation.processes import settle

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "project.toml").write_text(PROJECT)
    before = os.umask(0)  # whatever it is, nobody else may look into a kit
    try:
        assert main(["provision", str(folder / "project.toml"), "--out", str(folder / "kits")]) == 0
    finally:
        os.umask(before)
    return folder / "kits"


def test_everyone_gets_a_kit(kits):
    assert open_kit(kits / "server", "server").project == "hospitals"
    assert open_kit(kits / "berlin", "site").name == "berlin"
    assert open_kit(kits / "anna@example.org", "person").name == "anna@example.org"


def test_kits_and_their_keys_are_nobody_elses_business(kits):
    files = [path for path in kits.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"client.key", "policy.toml", "fedloom.json"}
    assert [path for path in kits.rglob("*") if path.stat().st_mode & 0o077] == []


def test_a_site_may_be_added_later_by_the_same_authority(kits, tmp_path):
    more = PROJECT.replace('["berlin", "lyon"]', '["berlin", "lyon", "torino"]')
    (tmp_path / "project.toml").write_text(more)
    before = (kits / "berlin" / "startup" / "client.crt").read_bytes()
    assert main(["provision", str(tmp_path / "project.toml"), "--out", str(kits)]) == 0
    assert (kits / "berlin" / "startup" / "client.crt").read_bytes() == before
    roots = {(kits / n / "startup" / "rootCA.pem").read_bytes() for n in ("berlin", "torino")}
    assert len(roots) == 1


def test_sites_sign_with_the_certificates_of_their_kits(kits):
    berlin, lyon = Identity(kits / "berlin"), Identity(kits / "lyon")
    assert berlin.name == "berlin"
    lyon.check("berlin", berlin.certificate, berlin.sign(b"text"), b"text")
    with pytest.raises(RefusedError, match="berlin has not signed"):
        lyon.check("berlin", berlin.certificate, berlin.sign(b"another text"), b"text")
    for file in ("server/startup/server.crt", "anna@example.org/startup/client.crt"):
        with pytest.raises(RefusedError, match="is not a site"):
            lyon.check("berlin", (kits / file).read_text(), b"", b"text")


def test_a_trial_in_a_relative_folder_gives_sites_files_that_they_find(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = trial.build(Path("trial"), clients(), methods=["fedavg"], problems=["logistic"])
    for kit in (made.server, *made.sites, made.lead):
        assert kit.path.is_absolute() and kit.path.is_dir()
    for kit in made.sites:  # whose processes have other working directories
        data = Path(read_policy(kit.path).data)
        assert data.is_absolute() and data.is_file()


def test_a_kit_of_another_role_is_refused(kits, capsys):
    assert main(["serve", str(kits / "berlin")]) == 2
    assert "is the kit of a site, berlin; this command needs that of the server" in (
        capsys.readouterr().err
    )
    with pytest.raises(FederationError, match="is no kit"):
        open_kit(kits, "site")


def test_joining_needs_data(kits, tmp_path, capsys):
    assert main(["join", str(kits / "lyon")]) == 2
    assert "lyon has no data yet. Give --data FILE." in capsys.readouterr().err
    assert main(["join", str(kits / "lyon"), "--data", str(tmp_path / "none.csv")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_submitting_needs_a_server(kits, tmp_path, capsys):
    settings = tmp_path / "s.toml"
    settings.write_text(
        '[data]\nlabel = "y"\n[problem]\nkind = "logistic"\n[algorithm]\nkey = "fedavg"\nlr = 0.1\n'
    )
    kit = str(kits / "anna@example.org")
    assert main(["submit", str(settings), "--kit", kit, "--resume"]) == 2
    assert "has submitted no such run" in capsys.readouterr().err


def test_the_policy_is_the_owners(kits, tmp_path):
    policy = read_policy(kits / "berlin")
    assert policy.methods == ("fedavg",) and policy.min_sites == 2 and policy.data is None
    set_data(kits / "berlin", tmp_path / "one.csv")
    set_data(kits / "berlin", tmp_path / "two.csv", tmp_path / "test.csv")
    policy = read_policy(kits / "berlin")
    assert policy.data == str(tmp_path / "two.csv") and policy.test == str(tmp_path / "test.csv")
    assert policy.methods == ("fedavg",)


def test_where_the_rows_are_is_noted_before_the_tables_of_a_policy(tmp_path):
    """Behind [labels] it would be one more label."""
    labels = '[labels]\nill = ["no", "yes"]\ntest = ["negative"]\n'
    (tmp_path / "policy.toml").write_text(f'methods = ["fedavg"]\ndata = "old.csv"\n{labels}')
    set_data(tmp_path, tmp_path / "one.csv", tmp_path / "held-out.csv")
    policy = read_policy(tmp_path)
    assert policy.data == str(tmp_path / "one.csv") and policy.methods == ("fedavg",)
    assert policy.test == str(tmp_path / "held-out.csv")
    assert policy.labels == {"ill": ["no", "yes"], "test": ["negative"]}


@pytest.mark.parametrize(
    "text,complaint",
    [
        ('method = ["fedavg"]', "there is no setting 'method'. Did you mean 'methods'"),
        ("min_sites = 0", "min_sites must be a whole number >= 1; got 0"),
        ("noise = 1.0", "noise must come with clip"),
        ("clip = ", "cannot be read"),
    ],
)
def test_mistakes_in_a_policy_are_named(text, complaint, tmp_path):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(SettingsError, match=complaint):
        read_policy(tmp_path)


@pytest.mark.parametrize(
    "change,complaint",
    [
        (('name = "hospitals"', ""), "a project needs name"),
        (("[people]", "[persons]"), "there is no setting 'persons'"),
        (('= "lead"', '= "boss"'), "people.anna@example.org must be one of lead"),
        (("port = 8002", "port = 0"), "port must be a whole number >= 1"),
    ],
)
def test_mistakes_in_a_project_are_named(change, complaint, tmp_path, capsys):
    (tmp_path / "project.toml").write_text(PROJECT.replace(*change))
    assert main(["provision", str(tmp_path / "project.toml"), "--out", str(tmp_path / "k")]) == 2
    assert complaint in capsys.readouterr().err


def test_no_code_travels_and_no_log_leaves(kits):
    for name, role in (("server", "server"), ("berlin", "site")):
        kit = open_kit(kits / name, role)
        settle(kit)
        local = kit.path / "local"
        rights = json.loads((local / "authorization.json").read_text())["permissions"]
        for right in rights.values():
            assert right["byoc"] == "none" and right["shell_commands"] == "none"
        resources = json.loads((local / "resources.json").read_text())
        assert len(resources["class_allow_list"]) == 4
        assert role == "server" or resources["allow_log_streaming"] is False


def test_a_policy_allows_nothing_by_itself():
    assert Policy().methods == () and Policy().problems == ()
    with pytest.raises(ParameterError):
        Policy(clip=-1.0)


def test_what_provisioning_needs_is_named_on_a_plain_installation(tmp_path, monkeypatch, capsys):
    project = tmp_path / "project.toml"
    project.write_text("")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["provision", str(project), "--out", str(tmp_path / "kits")]) == 2
    assert "Install fedloom[federate]" in capsys.readouterr().err
    assert not (tmp_path / "kits").exists()
