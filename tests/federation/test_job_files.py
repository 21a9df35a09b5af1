"""A job has the files that fedloom writes, byte for byte: FLARE would take any others as well."""

import io
import json
import zipfile

import pytest

from federation.harness import settings
from fedloom.errors import RefusedError
from fedloom.federation.job import job_of
from fedloom.federation.job_files import check_app, check_job, write_job

META, SERVER, SITE = (
    "job/meta.json",
    "job/app/config/config_fed_server.json",
    "job/app/config/config_fed_client.json",
)


@pytest.fixture
def files(tmp_path):
    """What a person submits, with the signatures that FLARE adds."""
    write_job(job_of(settings(), "a-run"), tmp_path / "job", ("berlin", "lyon"), 2)
    made = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in (tmp_path / "job").rglob("*.json")
    }
    assert made.keys() == {META, SERVER, SITE}
    return made | {"job/.__nvfl_sig.json": b"{}", "job/app/config/.__nvfl_submitter.crt": b"-"}


def packed(files, twice=()):
    """An archive of files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in (*files.items(), *twice):
            archive.writestr(name, text)
    return data.getvalue()


def of_app(files):
    """What of it comes to a site."""
    return {
        name.removeprefix("job/app/"): text
        for name, text in files.items()
        if name.startswith("job/app/")
    }


def changed(text, change):
    told = json.loads(text)
    change(told)
    return json.dumps(told, indent=2).encode()


def of_server(change):
    return lambda files: {**files, SERVER: changed(files[SERVER], change)}


def of_meta(change):
    return lambda files: {**files, META: changed(files[META], change)}


def arguments(told):
    return told["components"][0]["args"]


ATTACKS = {
    "code beside it": lambda f: {**f, "job/app/custom/evil.py": b""},
    "a package that stays on the disk": lambda f: {**f, "job/app/notes/__init__.py": b""},
    "a configuration that includes": lambda f: {**f, "job/app/config/config_fed_client.conf": b""},
    "a signature where none is due": lambda f: {**f, "job/app/x/.__nvfl_sig.json": b"{}"},
    "another class": of_server(lambda told: told["components"][0].update(path="os.system")),
    "one class more": of_server(lambda told: told["components"].append({"id": "x"})),
    "a variable for a version": of_server(lambda told: arguments(told).update(version="{$HOME}")),
    "a variable for a job": of_server(lambda told: arguments(told).update(job="{$HOME}")),
    "a text for a job": of_server(lambda told: arguments(told).update(job="[1]")),
    "no arguments": of_server(lambda told: told["components"][0].update(args=None)),
    "no components": of_server(lambda told: told.update(components=None)),
    "another site's part": lambda f: {**f, SITE: f[SITE].replace(b"SiteSide", b"ServerSide")},
    "a site's part that is none": lambda f: {**f, SITE: b"{"},
    "a launcher": of_meta(lambda told: told.update(launcher_spec={"mode": "docker"})),
    "resources": of_meta(lambda told: told.update(resource_spec={"berlin": {}})),
    "no map": of_meta(lambda told: told.update(deploy_map=["app"])),
    "another app": of_meta(lambda told: told.update(deploy_map={"app": ["@ALL"], "x": []})),
    "no number of sites": of_meta(lambda told: told.update(min_clients="2")),
    "no name": of_meta(lambda told: told.update(name={"a": 1})),
    "no meta": lambda f: {name: text for name, text in f.items() if name != META},
    "meta that is a list": lambda f: {**f, META: b"[]"},
    "a second folder": lambda f: {**f, "other/app/config/x.json": b"{}"},
}


def test_what_fedloom_writes_is_taken(files):
    check_job(packed(files))
    check_app(packed(of_app(files)))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_other_job_is_taken_by_the_server(attack, files):
    with pytest.raises(RefusedError, match="that `fedloom submit` did not write are not taken"):
        check_job(packed(attack(files)))


@pytest.mark.parametrize(
    "attack", [name for name in ATTACKS if "site's part" in name or "beside" in name]
)
def test_nor_by_a_site(attack, files):
    with pytest.raises(RefusedError, match="are not taken"):
        check_app(packed(of_app(ATTACKS[attack](files))))


def test_a_file_that_is_there_twice_and_what_is_no_archive_are_refused(files):
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = packed(files, [(SITE, b"{}")])
    for data in (twice, b"", b"PK\x03\x04junk", packed({})):
        with pytest.raises(RefusedError, match="are not taken"):
            check_job(data)
