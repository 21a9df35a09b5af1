"""The simulator as a user meets it: history, metrics, Ctrl-C, divergence, resuming, devices."""

import json
import signal
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.data.clients import from_arrays
from fedloom.errors import DivergedError, ParameterError
from fedloom.measuring.evaluation import spread
from fedloom.metrics.classification import auc
from papers.reference import LogisticClients

CLIENTS = LogisticClients()
FEDERATION = from_arrays(CLIENTS.parts())
PROBLEM = fl.problems.Logistic(l2=0.1)
FEDAVG = fl.algorithms.FedAvg(lr=0.3)
MARGIN = fl.Metric(lambda model, rows: rows.x @ model, larger_is_better=True)


def simulate(algorithm=FEDAVG, problem=PROBLEM, clients=FEDERATION, **options):
    return fl.simulate(algorithm, problem, clients, **{"rounds": 6, "eval_every": 4} | options)


def test_history_has_a_row_for_each_evaluation():
    history = simulate(rounds=10).history
    assert history["round"].to_list() == [0, 4, 8, 10]
    assert history.columns[:4] == ["round", "bytes_up", "bytes_down", "seconds"]
    model_bytes = 3 * 4
    assert history["bytes_up"].to_list() == [r * 4 * model_bytes for r in (0, 4, 8, 10)]
    assert (history["seconds"].diff().drop_nulls() > 0).all()


def test_metrics_are_those_of_numpy(double):
    result = simulate(metrics=("loss", "accuracy", "objective", "auc"), precision="float64")
    w = result.model
    scores = [x @ w for x in CLIENTS.x]
    losses = [CLIENTS.value(i, w) - 0.05 * w @ w for i in range(4)]
    accuracies = [np.mean((s > 0) == (y > 0)) for s, y in zip(scores, CLIENTS.y, strict=True)]
    final = result.final
    np.testing.assert_allclose(result.clients["loss"], losses)
    np.testing.assert_allclose(final["loss"], np.mean(losses))
    np.testing.assert_allclose(final["loss_worst"], np.max(losses))
    np.testing.assert_allclose(final["accuracy"], np.mean(accuracies))
    np.testing.assert_allclose(final["accuracy_worst"], np.min(accuracies))
    np.testing.assert_allclose(final["accuracy_std"], np.std(accuracies))
    objective = np.mean([CLIENTS.value(i, w) for i in range(4)])
    np.testing.assert_allclose(final["objective"], objective)
    s, y = np.concatenate(scores), np.concatenate(CLIENTS.y)
    pairs = (s[y == 1][:, None] > s[y == 0]).mean() + 0.5 * (s[y == 1][:, None] == s[y == 0]).mean()
    np.testing.assert_allclose(final["auc"], pairs)


def test_auc_counts_ties_half_and_needs_both_classes():
    assert auc(np.array([1.0, 2, 2, 3]), np.array([0, 0, 1, 1])) == 0.875
    assert np.isnan(auc(np.array([1.0, 2]), np.array([1, 1])))


def test_spread_over_clients():
    values = np.arange(1.0, 21)
    up, down = spread("m", values, True), spread("m", values, False)
    assert (up["m_worst"], up["m_worst10"], up["m_best10"]) == (1, 1.5, 19.5)
    assert (down["m_worst"], down["m_worst10"], down["m_best10"]) == (20, 19.5, 1.5)
    assert spread("m", np.array([np.nan, 3]), True)["m"] == 3


def test_metrics_are_taken_on_test_rows_where_there_are_some():
    flipped = [(x, 1 - y) for x, y in CLIENTS.parts()]
    clients = from_arrays(CLIENTS.parts(), test=flipped)
    on_train, on_test = simulate(rounds=20).final, simulate(clients=clients, rounds=20).final
    np.testing.assert_allclose(on_test["accuracy"], 1 - on_train["accuracy"])


def test_a_client_without_test_rows_is_left_out_of_the_summary():
    test = [(x[:0], y[:0]) if i == 0 else (x, y) for i, (x, y) in enumerate(CLIENTS.parts())]
    result = simulate(clients=from_arrays(CLIENTS.parts(), test=test))
    assert np.isnan(result.clients["accuracy"][0])
    rest = result.clients["accuracy"].to_numpy()[1:]
    np.testing.assert_allclose(result.final["accuracy"], rest.mean())


def test_a_metric_of_your_own():
    def margin(model, rows):
        return jax.numpy.abs(rows.x @ model)

    result = simulate(metrics={"margin": fl.Metric(margin, larger_is_better=True)})
    expected = np.mean([np.abs(x @ result.model).mean() for x in CLIENTS.x])
    np.testing.assert_allclose(result.final["margin"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options,complaint",
    [
        ({"rounds": 0}, "simulate: rounds must be a whole number >= 1; got 0"),
        ({"batch_size": -3}, "simulate: batch_size"),
        ({"precision": "half"}, "precision must be one of 'float32', 'float64'"),
        ({"metrics": ("accuracie",)}, "metrics must be among .*got 'accuracie'"),
        ({"metrics": ("gap",)}, "needs a known optimum"),
        ({"metrics": {"own": len}}, "which way it should go.*fl.Metric.function, larger_is_better"),
        ({"metrics": ["loss", len]}, "metrics must be named by texts; got <built-in function len>"),
        ({"metrics": {"round": MARGIN}}, "columns of their own; got a second 'round'"),
        ({"metrics": {"seconds": MARGIN}}, "columns of their own; got a second 'seconds'"),
        ({"metrics": {"client": MARGIN}}, "columns of their own; got a second 'client'"),
        ({"metrics": {"own": MARGIN, "own_rows": MARGIN}}, "got a second 'own_rows'"),
        ({"seed": True}, "seed must be a whole number from 0"),
        ({"optimum": np.zeros(7)}, "optimum must be a model or a vector of 3 numbers"),
        ({"devices": 99}, "devices must be a whole number from 1"),
        ({"algorithm": fl.algorithms.FedAvg(lr=0.1, cohort=9)}, "cohort must be"),
        (
            {"problem": fl.problems.Logistic(regulariser=fl.problems.L1(0.1))},
            "FedAvg takes no regulariser",
        ),
    ],
)
def test_misuse_is_refused(options, complaint):
    with pytest.raises(ParameterError, match=complaint):
        simulate(**options)


def test_numbers_of_numpys_are_taken_as_they_are(tmp_path):
    """They come from arrays of seeds and grids; files hold only Python's."""
    sizes = {"rounds": 4, "batch_size": 2, "seed": 3, "eval_every": 3}
    expected = simulate(fl.algorithms.FedAvg(lr=0.3, local_steps=2), **sizes)
    method = fl.algorithms.FedAvg(lr=np.float64(0.3), local_steps=np.int64(2))
    result = simulate(method, **{name: np.int64(size) for name, size in sizes.items()})
    assert result.history.drop("seconds").equals(expected.history.drop("seconds"))
    result.save(tmp_path / "run")
    assert fl.load(tmp_path / "run").about["algorithm"] == expected.about["algorithm"]


def test_divergence_names_the_round_and_keeps_the_last_good_state():
    wild = fl.algorithms.FedAvg(lr=1e30, local_steps=1)
    problem = fl.problems.LeastSquares()
    rng = np.random.default_rng(0)
    clients = from_arrays([(rng.normal(size=(8, 3)), rng.normal(size=8)) for _ in range(3)])
    with pytest.raises(DivergedError, match=r"not finite after round (\d+)") as caught:
        simulate(wild, problem, clients, rounds=50)
    kept = caught.value.result
    assert kept.status == "diverged"
    assert np.isfinite(kept.state.hub.model).all()
    named = int(str(caught.value).split("round ")[1].split(".")[0])
    assert int(kept.state.round) == named - 1 == kept.rows[-1]["round"]
    again = simulate(wild, problem, clients, rounds=named - 1)
    np.testing.assert_array_equal(again.state.hub.model, kept.state.hub.model)


def test_ctrl_c_keeps_what_was_done(tmp_path):
    program = tmp_path / "long.py"
    program.write_text(
        textwrap.dedent("""
        import json, os, signal, threading, numpy as np, fedloom as fl
        rng = np.random.default_rng(0)
        parts = [(rng.normal(size=(50, 20)), rng.integers(0, 2, 50)) for _ in range(4)]

        class Interrupter:
            def advance(self, round, rate):
                if round > 100:
                    os.kill(os.getpid(), signal.SIGINT)
            def evaluated(self, row): pass
            def close(self): pass

        result = fl.simulate(fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(),
                             fl.data.from_arrays(parts), rounds=10**7, progress=Interrupter())
        print(json.dumps([result.status, int(result.state.round), result.rows[-1]["round"]]))
        """)
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=600, check=True
    )
    status, round, evaluated = json.loads(done.stdout)
    assert status == "interrupted"
    assert 100 < round < 10**7 and evaluated == round
    assert f"interrupted after round {round} of 10000000" in done.stderr


def test_a_saved_result_comes_back(tmp_path):
    result = simulate(fl.algorithms.Scaffold(lr=0.3))
    result.save(tmp_path / "kept")
    back = fl.load(tmp_path / "kept")
    np.testing.assert_array_equal(back.model, result.model)
    np.testing.assert_array_equal(back.state.hub.control, result.state.hub.control)
    np.testing.assert_array_equal(back.state.clients[0].control, result.state.clients[0].control)
    assert back.history.equals(result.history)
    assert back.clients.equals(result.clients)
    assert back.status == "done" and back.about == result.about
    result.save(tmp_path / "kept")  # once more, in the place of the first
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_a_result_of_another_run_is_not_resumed():
    clients = fl.data.from_arrays([(np.eye(4), np.array([0, 1, 0, 1]))] * 2)
    few = fl.data.from_arrays([(np.eye(4)[:, :3], np.array([0, 1, 0, 1]))] * 2)
    method, problem = fl.algorithms.Scaffold(lr=0.1), fl.problems.Logistic()
    begun = fl.simulate(method, problem, clients, rounds=1)
    for other, said in (
        ((method, fl.problems.Multinomial(), clients), "its problem was Logistic.* Multinomial"),
        ((fl.algorithms.FedAvg(lr=0.1), problem, clients), "its method was Scaffold.* FedAvg"),
        ((method, problem, few), "its state has other arrays, as with other columns"),
    ):
        with pytest.raises(fl.errors.ParameterError, match=f"^simulate: resume must be .*{said}"):
            fl.simulate(*other, rounds=2, resume=begun)
    with pytest.raises(ValueError, match="its precision was float32, and here it is float64"):
        fl.simulate(method, problem, clients, rounds=2, precision="float64", resume=begun)


def test_a_folder_of_others_is_not_overwritten(tmp_path):
    (tmp_path / "theirs").mkdir()
    with pytest.raises(fl.FedloomError, match="is not a saved result"):
        simulate().save(tmp_path / "theirs")
    with pytest.raises(fl.FedloomError, match="holds no saved result"):
        fl.load(tmp_path / "theirs")


def test_a_second_signal_is_not_swallowed():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_model_that_was_saved_has_its_names(tmp_path):
    clients = fl.data.from_arrays([(np.eye(4), np.array([0, 1, 0, 1]))] * 2)
    problem = fl.problems.Logistic(intercept=True)
    made = fl.simulate(fl.algorithms.FedAvg(lr=0.1), problem, clients, rounds=1)
    made.save(tmp_path / "kept")
    kept = fl.load(tmp_path / "kept").model
    assert isinstance(kept, dict) and made.model.keys() == kept.keys() == {"bias", "weights"}
    assert all(np.array_equal(kept[name], made.model[name]) for name in kept)
