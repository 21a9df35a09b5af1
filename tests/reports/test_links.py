"""A folder that somebody hands over brings in nothing of whoever reads it."""

import concurrent.futures
import shutil

import pytest

import fedloom as fl
from fedloom.checksums import write_json
from fedloom.cli.main import main
from fedloom.errors import FedloomError
from fedloom.experiments.folder import SWEEP, RunFolder
from fedloom.reports import reading

SETTINGS = """
[data]
name = "iris"

[partition]
scheme = "iid"
clients = 3

[problem]
kind = "multinomial"

[algorithm]
key = "fedavg"
lr = 0.1

[run]
rounds = 1
"""
SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\nmine\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "settings.toml").write_text(SETTINGS)
    assert main(["run", str(folder / "settings.toml"), "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def handed(run, tmp_path):
    return shutil.copytree(run, tmp_path / "handed")


def linked(handed, name, target):
    (handed / name).unlink(missing_ok=True)
    (handed / name).symlink_to(target)
    return handed


@pytest.mark.parametrize("name", ["settings.toml", "settings.json", "result.json", SWEEP])
def test_a_report_follows_no_link_out_of_the_folder(name, run, handed, capsys):
    """Not even to what could be read: it would be of another run of the reader's."""
    own = run / name
    if name == SWEEP:
        own = run.parent / SWEEP
        write_json(own, {"trials": []})
    assert main(["report", str(linked(handed, name, own))]) == 2
    assert f"{name} is a link that leads out of its folder" in capsys.readouterr().err
    assert not (handed / "report.html").exists()


def test_a_report_shows_settings_and_no_other_text(handed, capsys):
    (handed / "settings.toml").write_text(SECRET)
    assert main(["report", str(handed)]) == 2
    assert "is not valid TOML" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.safetensors", "history.parquet"])
def test_nor_does_anything_that_reads_a_result(name, run, handed):
    with pytest.raises(FedloomError, match="leads out of its folder"):
        fl.load(linked(handed, name, run / name))


@pytest.mark.parametrize("name", ["settings.toml", "settings.json", "checkpoint.safetensors"])
def test_nor_does_a_run_that_goes_on(name, run, handed, capsys):
    assert main(["run", "--resume", str(linked(handed, name, run / name))]) == 2
    assert "leads out of its folder" in capsys.readouterr().err


def test_a_log_is_not_written_through_a_link(handed, tmp_path):
    own = tmp_path / "authorized_keys"
    own.write_text("mine\n")
    with pytest.raises(FedloomError, match="leads out of its folder"):
        RunFolder(linked(handed, "log.txt", own)).log("a line of somebody else's choice")
    assert own.read_text() == "mine\n"


def test_a_folder_may_lie_behind_a_link_and_have_links_within(run, tmp_path):
    (tmp_path / "short").symlink_to(shutil.copytree(run, tmp_path / "long"))
    (tmp_path / "long" / "model.safetensors").rename(tmp_path / "long" / "weights")
    (tmp_path / "long" / "model.safetensors").symlink_to("weights")
    assert fl.load(tmp_path / "short").status == "done"
    assert main(["report", str(tmp_path / "short")]) == 0


@pytest.fixture(scope="module")
def compared(run):
    """A comparison of somebody else's, and with it that of whoever it is handed to."""
    settings, out = run.parent / "settings.toml", run.parent / "compared"
    assert main(["compare", str(settings), "--out", str(out)]) == 0
    return out


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", ["fedavg", "fedavg/seed-0"])
@pytest.mark.parametrize("has_run", [False, True])
def test_a_comparison_goes_on_in_no_other_folder(name, has_run, run, compared, tmp_path, capsys):
    """Neither are runs written there, nor do those that are there enter its table."""
    handed, own = shutil.copytree(compared, tmp_path / "handed"), tmp_path / "own"
    if has_run:
        shutil.copytree(compared / name, own)
    own.mkdir(exist_ok=True)
    before = files(own)
    shutil.rmtree(handed / name)
    (handed / name).symlink_to(own)
    assert main(["compare", "--resume", str(handed)]) == 2
    assert "is a link that leads out of its folder" in " ".join(capsys.readouterr().err.split())
    assert files(own) == before


@pytest.mark.parametrize("name", ["Mine", "Mine/seed-0"])
def test_a_report_shows_no_run_of_another_folder(name, compared, tmp_path, capsys):
    handed = shutil.copytree(compared, tmp_path / "handed")
    own = shutil.copytree(compared / "fedavg" / "seed-0", tmp_path / "own" / "seed-0")
    (handed / name).parent.mkdir(exist_ok=True)
    (handed / name).symlink_to(own if "/" in name else own.parent)
    try:
        (study,) = reading.read([handed])
    except FedloomError as error:  # where the walk over folders has followed it
        assert "leads out of its folder" in str(error)
    else:
        assert list(study.methods) == ["fedavg"]


@pytest.mark.parametrize("name", [".rows", ".trials"])
def test_workers_write_nothing_elsewhere(name, tmp_path):
    handed, own = tmp_path / "handed", tmp_path / "own"
    handed.mkdir()
    own.mkdir()
    (handed / name).symlink_to(own)
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=3)
    given = {"a": fl.algorithms.FedAvg(lr=0.1)}, fl.problems.Multinomial(), clients
    with (
        concurrent.futures.ThreadPoolExecutor(1) as pool,
        pytest.raises(FedloomError, match="leads out of its folder"),
    ):
        if name == ".rows":
            fl.compare(*given, out=handed, rounds=1, executor=pool)
        else:
            fl.sweep(*given, over={"lr": [0.1]}, out=handed, rounds=1, executor=pool)
    assert files(own) == set()


def test_neither_do_the_jobs_of_slurm_nor_the_best_of_a_sweep(compared, tmp_path, capsys):
    own, handed = tmp_path / "own", shutil.copytree(compared, tmp_path / "handed")
    own.mkdir()
    (handed / "slurm").symlink_to(own)
    assert main(["compare", "--resume", str(handed), "--slurm", "time=5"]) == 2
    assert "leads out of its folder" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "s.toml").write_text(SETTINGS + "[sweep.over]\nlr = [0.1]\n")
    swept = tmp_path / "swept"
    assert main(["sweep", str(tmp_path / "s.toml"), "--out", str(swept)]) == 0
    shutil.rmtree(swept / "best")
    (swept / "best").symlink_to(own)
    assert main(["sweep", "--resume", str(swept)]) == 2
    assert "leads out of its folder" in " ".join(capsys.readouterr().err.split())
    assert files(own) == set()
