"""What people stumbled over in a trial: what comes home, how runs stand, what is said and when."""

import json
import shutil
import tomllib
import types
import uuid
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")

import fedloom as fl
from federation import hospitals, raw_tables
from federation.harness import NAMES, PROJECT, federation, refused, settings
from fedloom.checksums import write_json
from fedloom.cli.main import main
from fedloom.cli.run import show_result
from fedloom.errors import FederationError, SettingsError
from fedloom.experiments.locations import Location
from fedloom.experiments.settings import parse
from fedloom.federation import components
from fedloom.federation.job import OUTCOME, RESULT, job_of
from fedloom.federation.kits import Kit, open_kit
from fedloom.federation.people.bringing import bring
from fedloom.federation.people.records import Record
from fedloom.federation.people.session import Session
from fedloom.federation.people.standing import standings
from fedloom.federation.server.sites import SiteError
from fedloom.measuring.result import NAMES as NAMES_OF_RESULT
from fedloom.simulator import progress

TEXT = """
[data]
sites = "tables/*.csv"
label = "ill"

[problem]
kind = "logistic"
intercept = true

[algorithm]
key = "scaffold"
lr = 0.2
"""


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path / "anna", "person", "anna@example.org", "example", "hospitals")


def number(job):
    """The id of a job, as FLARE makes them."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, job))


class Server:
    """What FLARE's session does with the jobs that a folder holds."""

    def __init__(self, folder, **states):
        self.folder, self.downloads = folder, []
        self.states = {number(job): state for job, state in states.items()}
        self.folders = {number(job): job for job in states}

    def list_jobs(self, detailed):
        return [
            {"job_id": job, "name": f"run {job}", "status": state, "submit_time": job}
            for job, state in self.states.items()
        ]

    def do_app_command(self, job, topic, data):
        return {"round": 3, "rounds": 9}

    def download_job_result(self, job, place):
        self.downloads.append(job)
        return shutil.copytree(self.folder / self.folders[job], f"{place}/{job}")

    def get_job_status(self, job):
        return self.states[job]


def left(folder, result):
    """What a job that is done leaves."""
    result.save(folder / RESULT)
    write_json(folder / OUTCOME, {"status": "done"})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A run over raw tables, as the server has it."""
    folder = tmp_path_factory.mktemp("raw")
    chosen = raw_tables.settings(folder, run={"rounds": 40, "eval_every": 2})
    result = raw_tables.federation(folder, chosen)[0].run()
    left(folder / "jobs" / "one", result)
    return folder, chosen, result


def test_a_fetched_folder_is_whole(prepared, kit, tmp_path, capsys, monkeypatch):
    folder, chosen, _ = prepared
    record = Record(kit, "a-run")
    record.keep(chosen._replace(place=Location("s.toml", TEXT)))
    record.jobs = [number("one")]
    record.write()
    record = Record(kit, "a-run")  # as another command reads it
    session = Session(Server(folder / "jobs", one="FINISHED:COMPLETED"))
    out = tmp_path / "home"
    result = bring(session, record, number("one"), out)
    kept = tomllib.loads((out / "settings.toml").read_text())
    assert kept["problem"] == chosen.tables["problem"] and kept["run"]["rounds"] == 40
    assert json.loads((out / "settings.json").read_text())["problem"]["kind"] == "logistic"
    assert {"log.txt", "coefficients.csv"} <= {path.name for path in out.iterdir()}
    assert "age" in pl.read_csv(out / "coefficients.csv")["feature"].to_list()
    assert "ward=red" in (out / "report.html").read_text()
    new = folder / "tables" / "lyon.csv"
    capsys.readouterr()
    assert main(["predict", str(out), str(new), "--keep", "age"]) == 0
    said = pl.read_csv(capsys.readouterr().out.encode())
    assert said.columns == ["age", "prediction", "probability of no", "probability of yes"]
    assert (said["prediction"] == pl.read_csv(new)["ill"]).mean() > 0.6
    assert main(["export", str(out), "--to", "safetensors"]) == 0
    assert (
        result.about["coefficients"]
        and Record(kit, "a-run").ends[number("one")]["status"] == "done"
    )
    assert main(["predict", str(out), str(new), "--site", "lyon"]) == 2
    assert "each has its own in its kit, models/a-run.safetensors" in capsys.readouterr().err


def test_a_server_puts_nothing_else_into_a_fetched_folder(prepared, kit, tmp_path):
    _, _, result = prepared
    place, secret = tmp_path / "jobs" / "one", tmp_path / "secret"
    left(place, result)
    secret.write_text("of the person who fetches")
    (place / RESULT / "sitecustomize.py").write_text("raise SystemExit")
    (place / RESULT / "inside").mkdir()
    (place / RESULT / "notes.txt").symlink_to(secret)
    session, out = Session(Server(tmp_path / "jobs", one="FINISHED:COMPLETED")), tmp_path / "home"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(fl.FedloomError, match="is not overwritten"):
        bring(session, Record(kit, "a-run"), number("one"), tmp_path / "mine")
    bring(session, Record(kit, "a-run"), number("one"), out)
    assert {file.name for file in out.iterdir()} <= set(NAMES_OF_RESULT)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_rows_that_were_encoded_beforehand_predict_tables_too(tmp_path):
    chosen = hospitals.chosen({}, run={"rounds": 2})
    result = hospitals.hospitals(tmp_path, chosen)[0].run()
    result.about["settings"] = chosen.resolved()
    said = fl.predict(result, tmp_path / "lyon.csv", keep=["name"])
    assert said.height == 60 and set(said["prediction"]) <= {"no", "yes"}
    gap = pl.DataFrame({"age": [None, 40], "ward": ["red", "red"]})
    with pytest.raises(fl.FedloomError, match=r"'age' must have a value in every row"):
        fl.predict(result, gap)


def test_a_site_predicts_tables_with_the_model_in_its_kit(tmp_path):
    chosen = raw_tables.settings(
        tmp_path, algorithm={"key": "pfedme", "lr": 0.1}, run={"rounds": 1}
    )
    raw_tables.federation(tmp_path, chosen, methods=["pfedme"])[0].run()
    (file,) = (tmp_path / "lyon" / "models").iterdir()
    said = fl.predict(file, tmp_path / "tables" / "lyon.csv")
    assert said.columns == ["prediction", "probability of no", "probability of yes"]
    assert "berlin" not in file.read_bytes().decode("latin-1")


def test_status_says_who_refused_and_why(kit, tmp_path):
    ends = {
        "refused": {"status": "failed", "kind": "FederationError", "message": "0 of 3 sites take "
                    "part.", "refused": ["berlin", "lyon"]},
        "diverged": {"status": "failed", "kind": "DivergedError", "message": "lower the step"},
        "done": {"status": "done"},
    }  # fmt: skip
    for job, end in ends.items():
        write_json(tmp_path / "jobs" / job / OUTCOME, end)
    ended = dict.fromkeys([*ends, "others"], "FINISHED:COMPLETED")
    flare = Server(tmp_path / "jobs", **ended, going="RUNNING", queued="SUBMITTED",
                   killed="FINISHED:ABORTED")  # fmt: skip
    record = Record(kit, "a-run")
    record.jobs = [number(job) for job in ends]
    record.write()
    rows = {flare.folders[row["job"]]: row for row in standings(kit, Session(flare))}
    assert rows["refused"]["state"] == "refused by berlin, lyon"
    assert rows["refused"]["why"] == "0 of 3 sites take part."
    assert rows["diverged"]["state"] == "diverged" and rows["diverged"]["why"] == "lower the step"
    assert rows["done"]["state"] == "done" and rows["others"]["state"] == "ended"
    assert rows["going"]["state"] == "runs" and rows["going"]["round"] == "3 of 9"
    assert rows["queued"]["state"] == "waits" and "before its time" in rows["killed"]["state"]
    assert not any("FINISHED" in str(row) for row in rows.values())
    assert sorted(flare.folders[job] for job in flare.downloads) == sorted(
        ends
    )  # those of others are not asked for
    standings(kit, Session(flare))
    assert len(flare.downloads) == len(ends)  # how they ended was noted


def test_an_outcome_names_the_sites_that_refused(monkeypatch, tmp_path):
    class Conductor:
        sites = types.SimpleNamespace(refused={"lyon": "no", "berlin": "no"})

        def __init__(self, *_, **__):
            pass

        def status(self):
            return {}

        def run(self):
            raise FederationError("0 of 3 sites take part")

    from federation.test_operations import on_flare

    on_flare(monkeypatch, tmp_path)
    monkeypatch.setattr(components, "Conductor", Conductor)
    components.ServerSide(job_of(settings(), "a-run").text(), fl.__version__).run()
    assert json.loads((tmp_path / OUTCOME).read_text())["refused"] == ["berlin", "lyon"]


def test_a_reason_is_said_once_with_the_sites_that_have_it(tmp_path):
    conductor, _ = federation(tmp_path, settings(), methods=["fedavg"])
    said = refused(conductor, "berlin, lyon and torino do not take part: ")
    assert len(said) == 1 and said[0].count("the job wants") == said[0].count("lyon") == 1
    assert set(conductor.sites.refused) == set(NAMES)


def test_a_member_is_shown_what_a_member_may_do(tmp_path, capsys):
    text = PROJECT.replace('= "lead"', '= "lead"\n"mia@example.org" = "member"')
    (tmp_path / "project.toml").write_text(text)
    assert main(["provision", str(tmp_path / "project.toml"), "--out", str(tmp_path / "k")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("mia@" in line and "fedloom status" in line for line in lines)
    assert any("anna@" in line and "fedloom submit" in line for line in lines)
    assert not any("mia@" in line and "submit" in line for line in lines)
    assert (tmp_path / "k").stat().st_mode & 0o077 == 0
    assert open_kit(tmp_path / "k" / "mia@example.org", "person").may == "member"
    (tmp_path / "s.toml").write_text(TEXT)
    command = ["submit", str(tmp_path / "s.toml"), "--kit", str(tmp_path / "k/mia@example.org")]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "has the role 'member' in hospitals" in said and "fedloom status" in said


def test_what_the_server_does_not_allow_is_said_in_plain_words(tmp_path):
    class Refusing:
        def submit_job(self, folder):
            raise RuntimeError("user 'mia' is NOT authorized for 'submit_job'")

    with pytest.raises(FederationError, match=r"kit may not do that.*a member may look on"):
        Session(Refusing()).submit(tmp_path)


@pytest.mark.parametrize(
    "key,complaint",
    [
        ("trap.py:MyMethod", "sites execute no file of others; got trap.py:MyMethod"),
        ("absent.py:MyMethod", "sites execute no file of others"),
        ("os:system", "'os' comes with Python and has nothing for a federation"),
    ],
)
def test_code_that_no_site_would_load_is_refused_before_it_is_loaded(
    key, complaint, kit, tmp_path, capsys
):
    kit.path.mkdir()
    kit.write_card()
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    file = tmp_path / "s.toml"
    file.write_text(TEXT.replace("scaffold", key))
    for command in (["submit", str(file), "--kit", str(kit.path)], ["try-federation", str(file)]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert complaint in said and "algorithm.key" in said
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "change,complaint",
    [
        ({"data": {"test": "test/*.csv"}}, "data.test: names files of a simulation.*join --test"),
        (
            {"federation": {"secure_aggregation": True}},
            "secure_aggregation: must be false where raw tables are prepared together",
        ),
    ],
)
def test_what_no_site_could_use_is_refused_before_anything_is_sent(
    change, complaint, kit, tmp_path
):
    tables = {
        "data": {"sites": "t", "label": "ill"},
        "problem": {"kind": "logistic"},
        "algorithm": {"key": "fedavg", "lr": 0.1},
    }
    for name, table in change.items():
        tables[name] = {**tables.get(name, {}), **table}
    chosen = parse(tables, Location("s.toml", ""))
    with pytest.raises(SettingsError, match=complaint):
        job_of(chosen, "a-run")


def test_where_no_terminal_is_a_line_is_said_now_and_then(capsys, monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    lines = progress.Lines("Scaffold", 0, 50, "accuracy")
    for round in range(1, 31):
        clock.now += 1
        if round == 10:
            lines.evaluated({"accuracy": 0.875})
        lines.advance(round, 1.0)
    lines.close()
    lines.close()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "Scaffold: round 1 of 50, 1 rounds/s"
    assert said[-1] == "Scaffold: round 30 of 50, accuracy 0.875, 1 rounds/s"
    assert [int(line.split()[2]) for line in said] == [1, 6, 11, 16, 21, 26, 30]


def test_a_history_says_what_it_hides_and_totals_have_the_preparation(prepared, capsys):
    _, _, result = prepared
    cost = result.about["preparation"]
    assert cost["bytes_up"] > 600 and cost["bytes_down"] > 300  # sums, and what columns there are
    show_result(result)
    said = capsys.readouterr().out
    assert "9 evaluations are not shown, of rounds 2 to 18; history.parquet has all" in said
    whole = (result.final["bytes_up"] + cost["bytes_up"]) / 1000
    assert f"{whole:.3g} kB up, in 40 rounds and the preparation (" in said


def test_what_a_site_says_comes_without_the_name_of_a_class():
    from nvflare.collab.api.exceptions import CollabCallError

    class Proxy:
        def __call__(self, timeout):
            return self

        def call(self, verb, facts, body):
            raise CollabCallError("lyon", "call", "RefusedError: no", "RefusedError")

    with pytest.raises(SiteError, match=r"^no$") as error:
        components._call(Proxy())("hello", "{}", b"", 1.0)
    assert error.value.kind == "RefusedError"


@pytest.mark.parametrize("methods", [1, 2])
def test_a_trial_of_a_list_of_methods_is_refused(methods, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    listed = [f'[[algorithm]]\nkey = "fedavg"\nname = "{i}"\nlr = 0.1\n' for i in range(methods)]
    data = 'data = { name = "iris" }\npartition = { scheme = "iid", clients = 3 }\n'
    Path("s.toml").write_text(data + 'problem = { kind = "multinomial" }\n' + "".join(listed))
    assert main(["try-federation", "s.toml", "--out", "made"]) == 2
    assert "a federation runs one method" in " ".join(capsys.readouterr().err.split())
    assert not Path("made").exists()
