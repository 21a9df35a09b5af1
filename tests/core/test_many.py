"""Many runs at once give what each gives alone."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import fedloom as fl
from fedloom.data.clients import from_arrays
from fedloom.data.validation import hold_out
from fedloom.errors import DataError
from fedloom.rounds.crew import cores
from fedloom.simulator import many_runs
from fedloom.simulator.many_runs import PlannedRun, simulate_many
from fedloom.simulator.vmapped_runs import simulate_vmapped

OPTIONS = {"rounds": 6, "batch_size": 4, "eval_every": 3, "precision": "float64"}
PROBLEM = fl.problems.LeastSquares(l2=0.1)


@pytest.fixture(scope="module")
def clients():
    rng = np.random.default_rng(0)
    return from_arrays([(rng.normal(size=(m, 3)), rng.normal(size=m)) for m in (5, 8, 9)])


def alone(algorithm, seed, clients):
    return fl.simulate(algorithm, PROBLEM, clients, seed=seed, **OPTIONS)


RUNS = [(fl.algorithms.Scaffold(lr=lr, cohort=2), seed) for lr in (0.05, 0.2) for seed in (0, 1)]


def test_side_by_side_each_run_has_the_bits_it_has_alone(clients):
    heard = []
    results = simulate_many(
        [PlannedRun(a, PROBLEM, seed) for a, seed in RUNS],
        clients,
        finished=lambda i, result: heard.append(i),
        **OPTIONS,
    )
    assert sorted(heard) == [0, 1, 2, 3]
    for run, result in zip(RUNS, results, strict=True):
        expected = alone(*run, clients)
        np.testing.assert_array_equal(result.state.hub.model, expected.state.hub.model)
        assert result.about == expected.about | {"seconds": result.about["seconds"]}


def test_as_one_program_each_run_is_what_it_is_alone(clients):
    for run, result in zip(RUNS, simulate_vmapped(RUNS, PROBLEM, clients, **OPTIONS), strict=True):
        expected = alone(*run, clients)
        np.testing.assert_allclose(result.state.hub.model, expected.state.hub.model, rtol=1e-12)
        assert [row["round"] for row in result.rows] == [0, 3, 6]
        assert result.final["bytes_up"] == expected.final["bytes_up"]
        assert result.final["loss"] == pytest.approx(expected.final["loss"])
        assert result.status == "done"


def test_a_run_that_diverges_does_not_disturb_the_others(clients):
    wild = [(fl.algorithms.FedAvg(lr=lr), 0) for lr in (0.1, 1e200)]
    for results in (
        simulate_vmapped(wild, PROBLEM, clients, **OPTIONS),
        simulate_many([PlannedRun(a, PROBLEM, seed) for a, seed in wild], clients, **OPTIONS),
    ):
        assert [result.status for result in results] == ["done", "diverged"]
        assert results[0].final["loss"] == pytest.approx(alone(*wild[0], clients).final["loss"])
        assert np.isfinite(results[1].state.hub.model).all()


@pytest.mark.skipif(cores() < 2, reason="there is one core")
def test_runs_with_programs_of_their_own_do_not_wait_for_each_other(clients):
    """Each is compiled on a core of its own, and both are there when the first evaluation comes."""
    meeting = threading.Barrier(2, timeout=120)
    unlike = [fl.algorithms.FedAvg(lr=0.1, local_steps=steps) for steps in (1, 2)]
    jobs = [PlannedRun(method, PROBLEM, 0) for method in unlike]

    def meet(row):
        if row["round"] == 0:
            meeting.wait()

    results = simulate_many(jobs, clients, on_evaluation=meet, **OPTIONS)
    assert [result.status for result in results] == ["done", "done"]


@pytest.mark.skipif(cores() < 2, reason="a core has one run at a time")
def test_of_runs_that_end_at_once_one_is_heard_of_after_the_other(clients):
    """So that what is written of them is never older than what was written before."""
    inside, most = [], []

    def finished(i, result):
        inside.append(i)
        most.append(len(inside))
        time.sleep(0.2)
        inside.remove(i)

    jobs = [PlannedRun(a, PROBLEM, seed) for a, seed in RUNS]
    simulate_many(jobs, clients, finished=finished, **OPTIONS)
    assert most == [1] * len(RUNS)


def test_an_error_of_one_run_ends_all(clients):
    """It is told at once, though it stands behind others, and as it is."""
    heard, wrong = [], fl.problems.Logistic()  # there are no classes
    jobs = [PlannedRun(RUNS[0][0], PROBLEM, seed) for seed in range(40)]
    jobs.append(PlannedRun(RUNS[0][0], wrong, 0))
    with pytest.raises(DataError, match="Logistic needs class labels"):
        simulate_many(jobs, clients, finished=lambda i, _: heard.append(i), **OPTIONS)
    assert len(heard) < 40


def test_ctrl_c_ends_all_runs_and_not_just_one(clients, monkeypatch):
    stops, heard = [], []
    monkeypatch.setattr(many_runs, "_Stoppable", lambda stop, made=many_runs._Stoppable: (
        stops.append(stop) or made(stop)))  # fmt: skip

    def press(row):
        if row["round"] == 3:
            os.kill(os.getpid(), signal.SIGINT)
            assert stops[0].wait(60)  # the main thread hears it when it gets to it

    with pytest.raises(KeyboardInterrupt):
        simulate_many(
            [PlannedRun(a, PROBLEM, seed) for a, seed in RUNS],
            clients,
            finished=lambda i, result: heard.append(i),
            on_evaluation=press,
            **OPTIONS,
        )
    assert not heard


def test_held_out_rows_come_from_the_training_rows_of_the_same_client():
    parts = [(np.arange(10.0)[:, None] + 100 * i, np.full(10, float(i))) for i in range(3)]
    parts.append((np.array([[999.0]]), np.array([9.0])))
    whole = from_arrays(parts, test=parts)
    divided = hold_out(whole, 0.3, seed=1)
    assert divided.sizes.tolist() == [7, 7, 7, 1] and divided.test_sizes.tolist() == [3, 3, 3, 0]
    for i, (x, _) in enumerate(parts):
        both = np.concatenate([divided.of(i).x, divided.test_of(i).x])
        np.testing.assert_array_equal(np.sort(both, axis=0), x)
    again = hold_out(whole, 0.3, seed=1)
    np.testing.assert_array_equal(again.test.x, divided.test.x)
    assert not np.array_equal(hold_out(whole, 0.3, seed=2).test.x, divided.test.x)
    with pytest.raises(DataError, match=r"fraction must be .* got 1\.5"):
        hold_out(whole, 1.5)
    with pytest.raises(DataError, match="two rows or more"):
        hold_out(from_arrays([parts[-1], parts[-1]]), 0.3)
