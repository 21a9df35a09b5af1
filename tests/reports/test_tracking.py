"""Trackers get every evaluation of a run and of a comparison."""

import pytest

from fedloom.cli.main import main
from fedloom.experiments.tracking import tracking

SETTINGS = """
data = { name = "iris" }
partition = { scheme = "iid", clients = 3 }
problem = { kind = "multinomial" }

[[algorithm]]
key = "fedavg"
lr = 0.1

[run]
rounds = 4
eval_every = 2
"""


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "iris.toml"
    path.write_text(SETTINGS)
    return str(path)


def scalars(folder):
    """What TensorBoard would read from a folder: (tag, step) to value."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in folder.glob("events*"):
        data = path.read_bytes()
        while data:  # a length, its checksum, the message, its checksum
            size = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found[value.tag, event.step] = value.simple_value
    return found


def test_tensorboard_gets_every_evaluation(settings, tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    import fedloom as fl

    assert main(["run", settings, "--out", str(tmp_path / "one"), "--log", "tensorboard"]) == 0
    found = scalars(tmp_path / "tensorboard" / "one")
    for row in fl.load(tmp_path / "one").rows:
        for tag in ("accuracy/accuracy_worst", "loss/loss", "cost/bytes_up"):
            name = tag.split("/")[1]
            assert found[tag, row["round"]] == pytest.approx(row[name], rel=1e-6)


def test_each_run_of_a_comparison_is_tracked(settings, tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    wishes = ["--set", "compare.seeds=2", "--set", 'run.log=["tensorboard"]']
    assert main(["compare", settings, "--out", str(tmp_path / "two"), *wishes]) == 0
    folders = sorted((tmp_path / "tensorboard" / "two" / "fedavg").iterdir())
    assert [folder.name for folder in folders] == ["seed-0", "seed-1"]
    assert all(("loss/loss", 4) in scalars(folder) for folder in folders)


def test_mlflow_gets_every_evaluation(settings, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    from mlflow.tracking import MlflowClient

    # Plain files are quicker to make than the data base that MLflow uses by itself.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    assert main(["run", settings, "--out", str(tmp_path / "one"), "--log", "mlflow"]) == 0
    client = MlflowClient()
    experiment = client.get_experiment_by_name("fedloom").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.run_name == "one" and run.info.status == "FINISHED"
    assert run.data.params["algorithm"].startswith("FedAvg(lr=0.1")
    history = client.get_metric_history(run.info.run_id, "accuracy_worst")
    assert [entry.step for entry in history] == [0, 2, 4]


def test_a_run_that_fails_closes_its_trackers(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    with pytest.raises(ArithmeticError), tracking(["tensorboard"], tmp_path / "o", "o", {}) as log:
        log({"round": 0, "loss": 1.0})
        raise ArithmeticError
    assert scalars(tmp_path / "tensorboard" / "o") == {("loss/loss", 0): 1.0}


def test_an_unknown_tracker_is_refused(settings, capsys):
    assert main(["run", settings, "--set", 'run.log=["tensorbord"]']) == 2
    assert "names among tensorboard, mlflow" in capsys.readouterr().err
