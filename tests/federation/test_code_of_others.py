"""Settings that come over the network name code: nothing is loaded that an owner has not named."""

import json
import sys

import pytest

import fedloom as fl
from cli.own_code import METHOD, PARTS, announced
from federation import harness
from federation.harness import ALGORITHM, federation, hello, refused, settings
from fedloom.errors import FederationError, RefusedError, SettingsError
from fedloom.experiments.locations import Location, whatever_is_named
from fedloom.experiments.settings import parse
from fedloom.federation.job import Job, job_of
from fedloom.federation.people.submission import follow
from fedloom.federation.site.service import SiteService

TRAP = """
from pathlib import Path
Path(__file__).with_suffix(".sprung").touch()
"""
MINE = {"key": "theirs:MyMethod", "lr": 0.1}


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Modules that can be imported at the site, and say so where they are."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    (folder / "trap.py").write_text(METHOD + PARTS + TRAP)
    announced(
        folder,
        module=METHOD + PARTS + TRAP,
        algorithms="their_method = theirs:MyMethod",
        models="their_network = theirs:Linear",
        metrics="their_brier = theirs:brier",
    )
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def sprung(folder):
    return sorted(path.stem for path in folder.rglob("*.sprung"))


def told(folder, tables, **policy):
    """A site that hears of a run whose settings a malicious server has written."""
    conductor, wires = federation(folder, settings(), **policy)
    _, facts, _ = hello(conductor, "berlin")
    facts["tables"] = facts["tables"] | tables
    service = SiteService(wires["berlin"].kit)
    return lambda: service.call("hello", json.dumps(facts), b"")


SUPERVISED = {"kind": "supervised", "model": {"kind": "mlp"}}
ATTACKS = {
    "a module": {"algorithm": {"key": "trap:MyMethod", "lr": 0.1}},
    "a file": {"algorithm": {"key": "{folder}/trap.py:MyMethod", "lr": 0.1}},
    "a file beside": {"algorithm": {"key": "../site-packages/trap.py:MyMethod", "lr": 0.1}},
    "an announced method": {"algorithm": {"key": "their_method", "lr": 0.1}},
    "a blank before it": {"algorithm": {"key": " trap:MyMethod", "lr": 0.1}},
    "a line after it": {"algorithm": {"key": "trap:MyMethod\n", "lr": 0.1}},
    "an attribute of one": {"algorithm": {"key": "theirs:MyMethod.slope", "lr": 0.1}},
    "a list of one": {"algorithm": {"key": ["trap:MyMethod"], "lr": 0.1}},
    "several methods": {"algorithm": [ALGORITHM, {"key": "trap:MyMethod", "lr": 0.1}]},
    "a problem": {"problem": {"kind": "trap:MyProblem", "model": {"kind": "mlp"}}},
    "a model": {"problem": {**SUPERVISED, "model": {"kind": "trap:Linear"}}},
    "an announced model": {"problem": {**SUPERVISED, "model": {"kind": "their_network"}}},
    "a regulariser": {"problem": {"kind": "logistic", "regulariser": {"kind": "trap:Ridge"}}},
    "a regulariser in a sum": {
        "problem": {
            "kind": "logistic",
            "regulariser": {"kind": "sum", "parts": [{"kind": "trap:Ridge", "weight": 1}]},
        }
    },
    "a wrapper": {"wrapper": [{"kind": "trap:Loud"}]},
    "a compressor": {"wrapper": {"kind": "compressed", "compressor": {"kind": "trap:Same"}}},
    "an aggregator": {"wrapper": {"kind": "robust", "aggregator": {"kind": "trap:First"}}},
    "a metric": {"run": {"metrics": ["trap:brier"]}},
    "an announced metric": {"run": {"metrics": ["loss", "their_brier"]}},
    "a metric in a file": {"run": {"metrics": ["{folder}/trap.py:brier"]}},
    "data": {"data": {"label": "label", "name": "trap:rings"}},
    "a module of Python": {"algorithm": {"key": "antigravity:fly"}},
    "a module of fedloom": {"algorithm": {"key": "fedloom.algorithms:FedAvg", "lr": 0.1}},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_site_loads_nothing_because_a_job_names_it(attack, packages, tmp_path):
    text = json.dumps(ATTACKS[attack]).replace("{folder}", str(packages))
    allowed = {"problems": ["logistic", "supervised"]}
    call = told(tmp_path / "federation", json.loads(text), **allowed)
    with pytest.raises((RefusedError, FederationError)):
        call()
    assert sprung(packages) == [] and not {"trap", "theirs", "antigravity"} & set(sys.modules)


@pytest.mark.parametrize("attack", ["a module", "a problem", "a model", "a wrapper", "a metric"])
def test_a_site_says_that_its_policy_is_why(attack, packages, tmp_path):
    allowed = {"problems": ["logistic", "supervised"]}
    with pytest.raises(RefusedError, match="this site's policy allows the"):
        told(tmp_path / "federation", ATTACKS[attack], **allowed)()


def test_a_file_is_not_executed_even_where_a_policy_names_it(packages, tmp_path):
    key = f"{packages}/trap.py:MyMethod"
    call = told(tmp_path / "f", {"algorithm": {"key": key, "lr": 0.1}}, methods=[key])
    with pytest.raises(RefusedError, match="a file is executed for nobody else's settings"):
        call()
    assert sprung(packages) == []


def test_a_name_that_a_policy_gives_to_methods_is_not_one_of_a_part(packages, tmp_path):
    tables = {"problem": {**SUPERVISED, "model": {"kind": "trap:Linear"}}}
    allowed = {"methods": ["scaffold", "trap:Linear"], "problems": ["supervised"]}
    call = told(tmp_path / "f", tables, **allowed)
    with pytest.raises(RefusedError, match=r"'trap:Linear'.* Its owner may add it to parts"):
        call()
    assert sprung(packages) == []


# The server may load what is installed and announced, and leaves [data] alone.
AT_SERVER = [attack for attack in ATTACKS if "announced" not in attack and attack != "data"]


@pytest.mark.parametrize("attack", AT_SERVER)
def test_the_server_imports_no_module_because_a_job_names_it(attack, packages, tmp_path):
    tables = job_of(settings(), "a-run").tables
    text = json.dumps(ATTACKS[attack]).replace("{folder}", str(packages))
    with pytest.raises((RefusedError, SettingsError)):
        harness.conductor(Job("a-run", tables | json.loads(text)), {}, tmp_path)
    assert sprung(packages) == [] and not {"trap", "antigravity"} & set(sys.modules)


def local(**changes):
    """Settings of whoever submits, who may name code of their own."""
    tables = {**settings().tables, **changes}
    return parse(tables, Location("mine.toml", "", admit=whatever_is_named))


def test_what_owners_have_named_runs(packages, tmp_path):
    chosen = local(algorithm=MINE)
    home = tmp_path / "federation"
    with pytest.raises(RefusedError, match="the server loads what installed packages announce"):
        federation(home, chosen, methods=["theirs:MyMethod"])
    wires = federation(tmp_path / "named", settings(), methods=["theirs:MyMethod"])[1]
    (tmp_path / "named/server").mkdir()
    (tmp_path / "named/server/policy.toml").write_text('methods = ["theirs:MyMethod"]\n')
    conductor, _ = federation(tmp_path / "named", chosen, wires=wires)
    assert conductor.run().final["round"] == 6


def test_what_packages_announce_runs_where_policies_list_it(packages, tmp_path):
    run = {**settings().tables["run"], "metrics": ["loss", "their_brier"]}
    problem = {**SUPERVISED, "model": {"kind": "their_network"}}
    chosen = local(algorithm={"key": "their_method", "lr": 0.1}, problem=problem, run=run)
    allowed = {"methods": ["their_method"], "problems": ["supervised"]}
    refused(federation(tmp_path / "less", chosen, **allowed)[0], "Its owner may add it to parts")
    parts = ["their_network", "their_brier"]
    conductor, _ = federation(tmp_path / "enough", chosen, **allowed, parts=parts)
    assert conductor.run().final["their_brier"] == 0.25


@pytest.mark.parametrize("part", ["algorithm", "run"])
def test_a_file_is_refused_before_anything_is_sent(part, packages, tmp_path):
    named = {
        "algorithm": {"key": f"{packages}/trap.py:MyMethod", "lr": 0.1},
        "run": {"metrics": [f"{packages}/trap.py:brier"]},
    }
    chosen = local(**{part: named[part]})
    for send in (lambda: follow(None, chosen, tmp_path), lambda: job_of(chosen, "a-run")):
        with pytest.raises(SettingsError, match="sites execute no file of others"):
            send()


def test_federate_refuses_a_class_of_a_file(packages, tmp_path):
    method = local(algorithm={"key": f"{packages}/trap.py:MyMethod", "lr": 0.1}).algorithm
    where = {"kit": tmp_path, "label": "y", "out": tmp_path / "out"}
    with pytest.raises(SettingsError, match="sites execute no file of others"):
        fl.federate(method, fl.problems.Logistic(), **where)
