"""Settings that name code of one's own, or of installed packages."""

import json
import sys

import jsonschema
import pytest

import fedloom as fl
from cli.own_code import METHOD, PARTS, announced
from fedloom.checksums import digest, read_json, write_json
from fedloom.cli.main import main
from fedloom.errors import ParameterError, SettingsError
from fedloom.experiments import building, registries, settings
from fedloom.experiments.locations import Location
from fedloom.experiments.schema import schema
from fedloom.reports import reading

BASE = """
data = { name = "iris" }
partition = { scheme = "iid", clients = 3 }
problem = { kind = "multinomial" }
run = { rounds = 4, eval_every = 2 }
"""
FILE = BASE + 'algorithm = { key = "my_method.py:MyMethod", lr = 0.1 }\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with settings and code, which is not the working directory."""
    folder, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (folder / "my_method.py").write_text(METHOD)
    (folder / "parts.py").write_text(PARTS)
    return folder


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder in which packages count as installed; what is imported from it is forgotten."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def written(home, text, name="study.toml"):
    (home / name).write_text(text)
    return home / name


def read(home, text, **options):
    return settings.read(written(home, text), **options)


def test_a_method_in_a_file_beside_the_settings_runs_resumes_and_is_reported(home, capsys):
    path, out = written(home, FILE), home.parent / "out"
    assert main(["run", str(path), "--out", str(out)]) == 0
    kept = json.loads((out / "settings.json").read_text())
    assert kept["algorithm"][0]["key"] == f"{home / 'my_method.py'}:MyMethod"
    assert kept["algorithm"][0]["name"] == "MyMethod" and kept["algorithm"][0]["half"] == 0.5
    assert main(["run", "--resume", str(out), "--set", "run.rounds=6"]) == 0
    assert fl.load(out).final["round"] == 6
    assert main(["report", str(out)]) == 0


def test_a_resumed_run_executes_the_code_that_it_began_with(home, capsys):
    path, out = written(home, FILE), home.parent / "out"
    assert main(["run", str(path), "--out", str(out)]) == 0
    (home / "my_method.py").write_text(METHOD + "# changed\n")
    assert main(["run", "--resume", str(out), "--set", "run.rounds=6"]) == 2
    assert "is not what it was when the run" in capsys.readouterr().err
    (home / "my_method.py").write_text(METHOD)
    assert main(["run", "--resume", str(out), "--set", "run.rounds=6"]) == 0


def test_a_report_executes_nothing_and_names_a_command_that_runs_it_again(home):
    path, out = written(home, FILE), home.parent / "out"
    assert main(["run", str(path), "--out", str(out), "--set", "algorithm.lr=0.2"]) == 0
    (home / "my_method.py").write_text("raise SystemExit('executed')")
    ((study,),) = [reading.read([out])]
    (command,) = study.commands
    assert command == f"fedloom run {out}/settings.toml"  # test_again.py runs such a command
    assert f'key = "{home / "my_method.py"}:MyMethod"\nlr = 0.2' in study.settings


def test_methods_of_several_origins_are_compared(home, capsys):
    text = BASE + '[[algorithm]]\nkey = "my_method.py:MyMethod"\nlr = 0.1\n'
    text += '[[algorithm]]\nkey = "fedavg"\nlr = 0.1\n'
    out = home.parent / "out"
    assert main(["compare", str(written(home, text)), "--out", str(out)]) == 0
    assert main(["compare", "--resume", str(out)]) == 0
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"MyMethod", "fedavg"}
    assert len(reading.read([out])[0].methods) == 2


def test_a_method_of_ones_own_is_swept(home):
    text = FILE + "[sweep.over]\nlr = [0.05, 0.1]\n"
    out = home.parent / "out"
    assert main(["sweep", str(written(home, text)), "--out", str(out)]) == 0
    assert json.loads((out / "best.json").read_text())["MyMethod"]["lr"] in (0.05, 0.1)


def test_everything_else_of_ones_own(home):
    """Dataset, partition, problem, model, regulariser, wrappers, compressor, aggregator, metric."""
    text = """
data = { name = "parts.py:rings", rows = 40 }
partition = { scheme = "parts.py:Halves", first = 15 }
algorithm = { key = "my_method.py:MyMethod", lr = 0.1 }
[problem]
kind = "parts.py:MyProblem"
model = { kind = "parts.py:Linear" }
extra = { kind = "sum", parts = [{ kind = "parts.py:Ridge", weight = 2 }] }
[[wrapper]]
kind = "robust"
aggregator = { kind = "parts.py:First" }
[[wrapper]]
kind = "compressed"
compressor = { kind = "parts.py:Same" }
[[wrapper]]
kind = "parts.py:Loud"
[run]
rounds = 2
metrics = ["accuracy", "parts.py:brier"]
"""
    out = home.parent / "out"
    path = written(home, text)
    assert main(["run", str(path), "--out", str(out)]) == 0
    result = fl.load(out)
    assert list(result.client_names) == ["first", "second"]
    assert result.final["brier"] == 0.25 and "accuracy" in result.final
    assert result.about["larger_is_better"] == ["accuracy"]
    again = settings.read_again(out)
    assert type(again.problem).__name__ == "MyProblem"
    assert again.problem.extra.parts[0].weight == 2.0
    assert again.resolved() == settings.read(path).resolved()
    assert again.metrics.keys() == {"accuracy", "brier"} and again.clients().sizes[0] == 15


def test_a_model_of_a_problem_of_ones_own_predicts(home, capsys):
    (home / "sites").mkdir()
    for name in ("north", "south"):
        rows = "".join(f"{i},{i % 3},{'yes' if i % 2 else 'no'}\n" for i in range(20))
        (home / "sites" / f"{name}.csv").write_text("age,ward,stays\n" + rows)
    text = f"""
data = {{ sites = "{home}/sites/*.csv", label = "stays" }}
problem = {{ kind = "parts.py:MyProblem", model = {{ kind = "parts.py:Linear" }} }}
algorithm = {{ key = "fedavg", lr = 0.1 }}
run = {{ rounds = 2 }}
"""
    out = home.parent / "out"
    assert main(["run", str(written(home, text)), "--out", str(out)]) == 0
    assert main(["predict", str(out), str(home / "sites/north.csv"), "--out", "p.csv"]) == 0
    # A folder that somebody hands on executes nothing that comes with it, nor what has changed.
    about, trap = read_json(out / "result.json"), "raise SystemExit('executed')"
    inside = out / "parts.py"
    inside.write_text(trap)
    (home.parent / "elsewhere" / "parts.py").write_text(trap)
    (home / "parts.py").write_text(PARTS + "# changed\n")
    for forged in ("parts.py", inside, home / "parts.py"):
        about["settings"]["problem"]["kind"] = f"{forged}:MyProblem"
        about["settings"]["code"][str(inside)] = digest(trap.encode())
        write_json(out / "result.json", about)
        capsys.readouterr()
        assert main(["predict", str(out), str(home / "sites/north.csv")]) == 2
        assert "it is not executed" in capsys.readouterr().err


def test_a_class_of_a_module_that_can_be_imported(home, packages):
    (packages / "their").mkdir()
    (packages / "their/methods.py").write_text(METHOD)
    chosen = read(home, BASE + 'algorithm = { key = "their.methods:MyMethod", lr = 0.1 }\n')
    assert list(chosen.algorithms) == ["MyMethod"]
    assert chosen.resolved()["algorithm"][0]["key"] == "their.methods:MyMethod"


def test_a_file_may_import_what_lies_beside_it(home):
    (home / "helper_of_mine.py").write_text("step = 0.25\n")
    code = METHOD + "import helper_of_mine\nassert helper_of_mine.step == 0.25\n"
    (home / "my_method.py").write_text(code)
    path = list(sys.path)
    read(home, FILE)
    assert sys.path == path


def test_fields_are_built_by_their_annotations_and_described_again(home):
    table = 'key = "my_method.py:Shrinking", lr = 0.1, penalty = { kind = "l1", strength = 0.3 }'
    chosen = read(home, BASE + f"algorithm = {{ {table} }}\n")
    assert chosen.algorithm.penalty == fl.problems.L1(strength=0.3)
    assert chosen.resolved()["algorithm"][0]["penalty"] == {"kind": "l1", "strength": 0.3}
    parts = building.parts_of(type(chosen.algorithm))
    assert parts == {"penalty": registries.REGULARISERS}
    of_steps = dict.fromkeys(("lr", "common_lr"), registries.SCHEDULES)
    assert building.parts_of(fl.algorithms.QuPeD) == {
        **of_steps,
        "quantise": fl.algorithms.Quantisation,
    }


@pytest.mark.parametrize(
    "key,complaint",
    [
        ("nowhere.py:MyMethod", "there is no file {home}/nowhere.py"),
        ("my_method.py:MyMethodd", "has no 'MyMethodd'. Did you mean 'MyMethod'"),
        ("my_method.py:number", "with @algorithm above it and Algorithm as its base; it is a int"),
        ("my_method.py:NotMarked", "must be a class with @algorithm above it"),
        ("parts.py:Ridge", "must be a class with @algorithm above it"),
        ("parts.py:Loud", "must be a class with @algorithm above it"),
        (
            "failing.py:MyMethod",
            "failing.py cannot be executed ({home}/failing.py, line 3): KeyErr",
        ),
        ("unclear.py:MyMethod", "({home}/unclear.py, line 2): SyntaxError"),
        ("silent.py:MyMethod", "({home}/silent.py, line 5): ProtocolError: MyMethod.round must"),
        ("leaving.py:MyMethod", "({home}/leaving.py, line 1): SystemExit"),
        ("no_such_package.module:It", "there is no module 'no_such_package' here"),
        ("json.nothing:It", "there is no module 'json.nothing' here"),
        ("json:dumps", "json:dumps must be a class with @algorithm"),
        ("my_method.py:", "must be a known key; got 'my_method.py:'"),
        ("my method:It", "must be a known key"),
    ],
)
def test_what_is_wrong_with_code_of_ones_own_is_said(key, complaint, home):
    (home / "failing.py").write_text("x = {}\n\nx['lost']\n")
    (home / "unclear.py").write_text("x = 1\ndef (\n")
    (home / "leaving.py").write_text("raise SystemExit\n")
    silent = "from fedloom.protocol import Algorithm, algorithm\n\n\n\n@algorithm\n"
    (home / "silent.py").write_text(silent + "class MyMethod(Algorithm):\n    pass\n")
    with pytest.raises(SettingsError) as error:
        read(home, FILE.replace("my_method.py:MyMethod", key))
    assert complaint.format(home=home) in str(error.value)
    assert "study.toml, line 6, algorithm.key" in str(error.value)


@pytest.mark.parametrize(
    "data,complaint",
    [
        ('name = "parts.py:broken"', "failed ({home}/parts.py, line 27): KeyError: 'nothing'"),
        ('name = "parts.py:wrong"', "must return a fl.data.Dataset; it returned a int"),
        ('name = "parts.py:rings", row = 3', "rings: got an unexpected keyword argument 'row'"),
        ('name = "parts.py:Linear"', "must be a function that returns a fl.data.Dataset"),
    ],
)
def test_what_is_wrong_with_data_of_ones_own_is_said(data, complaint, home):
    chosen = read(home, FILE.replace('name = "iris"', data))
    with pytest.raises(SettingsError) as error:
        chosen.clients()
    assert complaint.format(home=home) in str(error.value)


def test_two_metrics_of_one_name_are_refused(home):
    metrics = 'metrics = ["parts.py:brier", "other.py:brier"]'
    (home / "other.py").write_text(PARTS)
    with pytest.raises(SettingsError, match="two metrics named 'brier'"):
        read(home, FILE.replace("rounds = 4", f"rounds = 4, {metrics}"))


def test_python_that_reads_tables_loads_nothing_unless_it_says_so(home):
    tables = {"data": {"name": "iris"}, "problem": {"kind": "logistic"}}
    tables["algorithm"] = {"key": f"{home}/my_method.py:MyMethod", "lr": 0.1}
    with pytest.raises(SettingsError, match="must be fedloom's own here"):
        settings.parse(tables, Location("here", ""))


def test_a_class_that_nobody_else_can_find_has_no_key():
    with pytest.raises(ParameterError, match="has no key in settings files"):
        registries.MODELS.key_of(fl.models.Pair)
    with pytest.raises(ParameterError, match="has no key in settings files"):
        registries.MODELS.key_of(type("Local", (), {"__module__": "__main__"}))


POINTS = "their_method = theirs:MyMethod"


def test_what_an_installed_package_announces_is_named_by_its_key(home, packages, capsys):
    announced(packages, algorithms=POINTS)
    text = BASE + 'algorithm = { key = "their_method", lr = 0.1 }\n'
    path, out = written(home, text), home.parent / "out"
    assert "theirs" not in sys.modules
    assert main(["run", str(path), "--out", str(out)]) == 0
    assert settings.read_again(out).resolved()["algorithm"][0]["key"] == "their_method"
    document = schema()
    tables = {"data": {"name": "iris"}, "problem": {"kind": "logistic"}}
    jsonschema.validate({**tables, "algorithm": {"key": "their_method", "lr": 0.1}}, document)
    for wrong in ({"key": "their_method", "lr": -1}, {"key": "their_methods", "lr": 0.1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**tables, "algorithm": wrong}, document)
    capsys.readouterr()
    assert main(["explain", "their_method"]) == 0
    said = capsys.readouterr().out
    assert "their_method: MyMethod" in said and "A method of one's own." in said
    assert "slope" in said and "step size" in said


def test_lists_say_where_things_come_from_and_survive_what_is_broken(packages, capsys):
    announced(packages, algorithms=POINTS + "\nlost = theirs:Nothing\nfedavg = theirs:MyMethod")
    announced(packages, "failing", "raise KeyError('at import')", models="gone = failing:Net")
    announced(packages, "twice", PARTS, models="net = twice:Linear\nwrong = twice:Ridge")
    announced(packages, "again", PARTS, models="net = again:Linear", metrics="theirs = again:brier")
    assert main(["list", "algorithms", "--format", "json"]) == 0
    rows = {(row["key"], row["from"]): row for row in json.loads(capsys.readouterr().out)}
    assert rows["their_method", "theirs 2.0"]["about"] == "One gradient step a round."
    assert rows["fedavg", "fedloom"]["family"] == "averaging"
    assert "cannot be overridden" in rows["fedavg", "theirs 2.0"]["about"]
    assert "AttributeError" in rows["lost", "theirs 2.0"]["about"]
    assert main(["list", "models", "--format", "json"]) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert "failing.py, line 1): KeyError: 'at import'" in rows["gone"]["about"]
    assert "several packages announce it" in rows["net"]["about"]
    assert "must be a class with @parametrised above it and Model" in rows["wrong"]["about"]
    assert rows["mlp"]["from"] == "fedloom"
    for what in registries.ALL:
        assert main(["list", what.kind]) == 0


def test_a_key_of_fedloom_stays_fedlooms(home, packages):
    announced(packages, algorithms="fedavg = theirs:MyMethod")
    chosen = read(home, BASE + 'algorithm = { key = "fedavg", lr = 0.1 }\n')
    assert type(chosen.algorithm) is fl.algorithms.FedAvg and "theirs" not in sys.modules


def test_a_broken_announcement_is_an_error_of_who_names_it(home, packages):
    announced(packages, algorithms="lost = theirs:Nothing")
    with pytest.raises(SettingsError, match="'lost' cannot be used: theirs:Nothing of"):
        read(home, BASE + 'algorithm = { key = "lost", lr = 0.1 }\n')


def test_announced_data_and_metrics_are_named_by_their_keys(home, packages):
    announced(
        packages, "theirs", PARTS, datasets="rings = theirs:rings", metrics="theirs = theirs:brier"
    )
    text = FILE.replace('name = "iris"', 'name = "rings", rows = 20')
    chosen = read(home, text.replace("rounds = 4", 'rounds = 4, metrics = ["loss", "theirs"]'))
    assert chosen.clients().train.x.shape[0] == 20
    assert chosen.metrics["loss"] is None and chosen.metrics["theirs"].larger_is_better is False


def test_explain_takes_an_address_and_every_kind(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    for key, said in {
        "my_method.py:MyMethod": "Messages of a round",
        "my_method.py:Shrinking": "Parameters",
        "parts.py:Ridge": "a regulariser",
        "parts.py:rings": "Two rings.",
        "l1": "a regulariser",
        "logistic": "a problem",
        "median": "an aggregator",
    }.items():
        assert main(["explain", key]) == 0
        assert said in capsys.readouterr().out
    assert main(["explain", "my_method.py:number"]) == 2
    assert "it is none" in capsys.readouterr().err
