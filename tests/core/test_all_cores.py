"""A crew of threads computes the bits of one thread, and a run takes it on where it pays."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import traceback

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.errors import DivergedError, ParameterError
from fedloom.rounds import crew, meetings, native_meetings
from fedloom.rounds.crew import Crew, cores, crew_of
from fedloom.rounds.meetings import CannotMeetError, Meetings
from fedloom.rounds.parts import Plan, number_of_parts
from fedloom.simulator import all_cores, many_runs, places
from fedloom.simulator.all_cores import AllCores
from fedloom.simulator.simulation import Simulation
from fedloom.simulator.task import Task

SEVERAL = pytest.mark.skipif(cores() < 2, reason="a crew has no more members than there are cores")
DIGITS = fl.data.load("digits")
CLIENTS = fl.data.partition(DIGITS, "label", clients=7, classes_each=3, test_fraction=0.2)
METHOD = fl.algorithms.FedAvg(lr=0.1, local_steps=3)
PROBLEM = fl.problems.Multinomial(l2=1e-3, intercept=True)
NETWORK = fl.problems.Supervised(fl.models.MLP((280,)))  # a large model
RUNS = {
    "states": (fl.algorithms.Scaffold(lr=0.1, local_steps=3), PROBLEM, {"lanes": 2}),
    "a cohort": (fl.algorithms.FedAvg(lr=0.1, local_steps=3, cohort=5), PROBLEM, {"lanes": 2}),
    "double": (METHOD, PROBLEM, {"lanes": 3, "precision": "float64"}),
    "two exchanges": (CATALOGUE["drfa"].example(), PROBLEM, {"lanes": 1}),
    "groups": (
        CATALOGUE["quped"].example(),
        fl.problems.Personal(fl.models.MLP((12,)), fl.models.MLP((8,))),
        {"lanes": 2},
    ),
    "a zero like a message": (
        CATALOGUE["codasca"].example(),
        fl.problems.AUC(),
        {
            "lanes": 1,
            "clients": fl.data.from_arrays(
                [(np.eye(6, 5) * i, np.arange(6) % 2) for i in (1.5, 2.5, 3.5)]
            ),
        },
    ),
    "a network": (METHOD, NETWORK, {}),
}


def simulate(method=METHOD, problem=PROBLEM, clients=CLIENTS, **options):
    options = {"rounds": 6, "batch_size": 8, "progress": False, **options}
    return fl.simulate(method, problem, clients, **options)


def assert_same_bits(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.state, other.state)
    assert one.final == other.final | {"seconds": one.final["seconds"]}


@SEVERAL
@pytest.mark.parametrize("name", RUNS)
def test_two_threads_give_the_bits_of_one(name):
    method, problem, options = RUNS[name]
    one, two = (simulate(method, problem, devices=n, **options) for n in (1, 2))
    assert_same_bits(one, two)


@SEVERAL
def test_a_crew_diverges_as_one_thread_does_where_jax_looks_for_nan():
    before = jax.config.jax_debug_nans
    jax.config.update("jax_debug_nans", True)  # for all threads
    try:
        for devices in (1, 2):
            with pytest.raises(DivergedError, match="not finite after round 1"):
                simulate(fl.algorithms.FedAvg(lr=3e38), devices=devices, lanes=2)
    finally:
        jax.config.update("jax_debug_nans", before)


@SEVERAL
def test_what_is_configured_in_jax_stays():
    before = jax.devices(), jax.config.values
    simulate(devices=2, lanes=2)
    assert (jax.devices(), jax.config.values) == before


def test_devices_of_a_cpu_are_its_cores():
    with pytest.raises(ParameterError, match=f"from 1 to the {cores()} cores there are; got 999"):
        simulate(devices=999)


def trial(monkeypatch, lanes=2, state_bytes=100):
    monkeypatch.setattr(all_cores, "cores", lambda: 2)
    made = Task(
        METHOD, PROBLEM, CLIENTS, batch_size=8, metrics=(), precision="float32", optimum=None,
        devices=None, deterministic=True, lanes=lanes,
    )  # fmt: skip
    return AllCores(made, METHOD, made.plan, state_bytes)


def test_a_crew_is_tried_where_enough_is_left_and_kept_where_it_is_faster(monkeypatch):
    way = trial(monkeypatch)
    assert not way.learn(10, 0.1, left=10**6, cost=1.0)  # too short to know a rate
    assert not way.learn(90, 0.9, left=450, cost=1.0)  # four and a half seconds are left
    assert way.crew is None
    assert way.learn(100, 1.0, left=550, cost=1.0)  # five and a half
    assert way.crew is crew_of(2)
    assert not way.learn(120, 1.0, left=480, cost=1.0)
    assert way.crew is crew_of(2)
    way.end()
    assert way.crew is None


def test_a_crew_may_take_much_longer_than_before_but_not_for_ever(monkeypatch):
    """Twenty times as long and more is what other work in the process does to it."""
    way, limits = trial(monkeypatch), []
    monkeypatch.setattr(all_cores, "_that_fit", lambda program: 2)
    monkeypatch.setattr(Crew, "do", lambda self, work, limit: limits.append(limit) or [None])
    run = Simulation(way.task, METHOD, 0, rounds=9, eval_every=9)

    def compute(rounds):
        way.compute(run.state.hub, run.state.clients, run.root, np.int32(0), np.int32(rounds))

    way._take_on(2)
    compute(3)
    for rounds, seconds in ((1, 0.4), (1, 1.6), (1, 8.0)):  # one a second, then less
        way.learn(rounds, seconds, left=0, cost=1.0)
    compute(3)
    compute(0)
    way.end()
    assert limits == [float("inf"), 20 * 3 * 1.0, all_cores._FOR_LONG]


@SEVERAL
def test_the_crew_of_a_large_model_is_not_on_trial(monkeypatch):
    way = trial(monkeypatch)
    monkeypatch.setattr(way.task, "small", False)
    way.begin()
    assert way.crew is crew_of(2)
    for rounds in (100, 10):
        assert not way.learn(rounds, 1.0, left=10**6, cost=1.0)
    assert way.crew is crew_of(2)
    way.end()


def test_a_crew_that_is_not_faster_is_let_go_for_good(monkeypatch):
    way = trial(monkeypatch)
    assert way.learn(100, 1.0, left=10**6, cost=1.0)
    assert not way.learn(105, 1.0, left=10**6, cost=1.0)
    assert way.crew is None
    assert not way.learn(100, 1.0, left=10**6, cost=1.0)
    assert way.crew is None


def test_a_cohort_in_one_part_needs_no_crew(monkeypatch):
    way = trial(monkeypatch, lanes=7)
    assert not way.learn(100, 1.0, left=10**6, cost=1.0)
    assert way.crew is None


def test_large_states_are_not_copied_for_every_thread(monkeypatch):
    way = trial(monkeypatch, state_bytes=2**29)
    assert not way.learn(100, 1.0, left=10**6, cost=1.0)
    assert way.crew is None


def task_of(cohort, clients=CLIENTS, problem=NETWORK):
    return Task(
        fl.algorithms.FedAvg(lr=0.1, cohort=cohort), problem, clients, batch_size=8, metrics=(),
        precision="float32", optimum=None, devices=None, deterministic=True,
    )  # fmt: skip


@SEVERAL
def test_clients_of_a_large_model_have_all_cores_from_the_beginning(monkeypatch):
    alone, begun = simulate(problem=NETWORK, devices=1), []
    monkeypatch.setattr(AllCores, "_take_on", lambda self, size, take=AllCores._take_on: (
        begun.append(size), take(self, size)))  # fmt: skip
    assert_same_bits(alone, simulate(problem=NETWORK))
    assert begun == [min(cores(), 7)]  # there are seven clients


@pytest.mark.parametrize(("cohort", "threads"), [(3, 1), (4, None), (None, None)])
def test_a_few_clients_of_a_large_model_are_left_to_the_kernels_own_threads(cohort, threads):
    assert task_of(cohort).threads(100) == threads


def test_programs_are_not_chosen_by_the_number_of_cores(monkeypatch):
    """With 64 cores there is less room for states than with two, but the program is the same."""
    task = task_of(None)
    for state_bytes in (2**27, 2**27 + 1):
        programs = set()
        for count in (2, 64):
            monkeypatch.setattr(all_cores, "cores", lambda count=count: count)
            programs.add(task.rounds_for(state_bytes))
        assert len(programs) == 1
        assert task.threads(state_bytes) == (None if state_bytes == 2**27 else 1)
    assert task.rounds_for(2**27) is not task.rounds_for(2**27 + 1)


def test_only_what_a_crew_computes_counts():
    """Of FedDR's exchanges the opening asks all clients; groups are divided each by itself."""
    alone = dataclasses.replace(CATALOGUE["feddr"].example(), cohort=1)
    options = {"batch_size": 8, "metrics": (), "precision": "float32", "optimum": None}
    options |= {"devices": None, "deterministic": True}
    assert Task(alone, NETWORK, CLIENTS, **options).threads(100) == 1
    own = tuple(fl.models.MLP((280 + n,)) for n in range(3))  # two or three clients of each
    unlike = fl.problems.Personal(fl.models.MLP((280,)), own)
    assert Task(CATALOGUE["quped"].example(), unlike, CLIENTS, **options).threads(100) == 1


@SEVERAL
def test_a_run_that_ends_before_its_first_round_keeps_no_cores(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedloom.simulator.run.progress_for", interrupted)
        with pytest.raises(KeyboardInterrupt):
            simulate(problem=NETWORK, progress=True)
    assert not crew._working.locked()


@SEVERAL
def test_who_turns_compiling_off_has_one_thread(monkeypatch):
    monkeypatch.setattr(Crew, "do", None)
    with jax.disable_jit():
        made = trial(monkeypatch)
        made._take_on(2)
    assert made.crew is None


@SEVERAL
@pytest.mark.parametrize("members", [0.5, 1.5])
def test_a_crew_has_no_more_members_than_there_is_memory_for(monkeypatch, members):
    """Where there is none for two, one thread computes the same."""
    alone, taken = simulate(problem=NETWORK, devices=1), []
    monkeypatch.setattr(AllCores, "_take_on", lambda self, size, take=AllCores._take_on: (
        taken.append(size), take(self, size)))  # fmt: skip

    def fit(program, that_fit=all_cores._that_fit):
        needed = program.memory_analysis().temp_size_in_bytes
        assert needed > 1000
        monkeypatch.setattr(places, "memory", lambda: 2 * (members + 1) * needed)
        return that_fit(program)

    monkeypatch.setattr(all_cores, "_that_fit", fit)
    assert_same_bits(alone, simulate(problem=NETWORK))
    assert taken == [min(cores(), 7), int(members)]


def crew_that_meets(monkeypatch, kind):
    """A crew of two of its own, with programs of its own, that meets in this way."""
    pair = Crew(2)
    pair._meetings = kind(2)
    if pair._meetings is None:
        pytest.skip("there is no C++ compiler for native meetings")
    monkeypatch.setattr(all_cores, "crew_of", lambda size: pair)


@SEVERAL
@pytest.mark.parametrize("kind", [Meetings, native_meetings.of])
def test_where_members_miss_each_other_one_thread_goes_on(monkeypatch, capsys, kind):
    alone = simulate(devices=1, lanes=2)
    do, missed = Crew.do, []

    def late(self, work, limit):
        try:
            return do(self, lambda rank: (time.sleep(1.0 * rank), work(rank))[1], limit)
        except CannotMeetError:
            missed.append(work)
            raise

    crew_that_meets(monkeypatch, kind)
    monkeypatch.setattr(Crew, "do", late)
    monkeypatch.setattr(meetings, "PATIENCE", 0.2)
    assert_same_bits(alone, simulate(devices=2, lanes=2))
    assert len(missed) == 1
    assert capsys.readouterr().err.count("one thread goes on alone") == 1


@SEVERAL
@pytest.mark.parametrize("kind", [Meetings, native_meetings.of])
def test_the_bits_are_the_same_however_members_meet(monkeypatch, kind):
    alone, met = simulate(devices=1, lanes=2), []
    crew_that_meets(monkeypatch, kind)
    monkeypatch.setattr(Crew, "shared", lambda self, tree, rank, shared=Crew.shared: (
        met.append(rank), shared(self, tree, rank))[1])  # fmt: skip
    assert_same_bits(alone, simulate(devices=2, lanes=2))
    assert met


@SEVERAL
def test_after_an_interruption_nobody_is_left_behind():
    """The members are far from the end of their round when Ctrl-C comes."""
    long = fl.algorithms.FedAvg(lr=0.1, local_steps=100_000)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 0.2)  # and again, impatiently
    try:
        result = simulate(long, devices=2, lanes=1, rounds=50, metrics=())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert result.status == "interrupted"
    # By what the interpreter runs: what Python 3.11 says of threads may be wrong after Ctrl-C.
    frames = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
    assert not any("crew.py" in line.filename for stack in frames for line in stack)
    assert_same_bits(simulate(devices=1, lanes=2), simulate(devices=2, lanes=2))


@SEVERAL
def test_members_have_the_program_of_the_run_that_they_are_of():
    """JAX may be set otherwise in the caller's thread, and may forget its programs meanwhile."""

    def forget(row):
        jax.clear_caches()

    with jax.default_matmul_precision("float32"):
        one, two = (
            simulate(devices=n, lanes=2, eval_every=2, on_evaluation=forget) for n in (1, 2)
        )
    assert_same_bits(one, two)


@SEVERAL
def test_places_are_numbered_anew_in_every_program(monkeypatch):
    """So that a program has the same number in every process, and is found in the cache."""
    crew_that_meets(monkeypatch, Meetings)
    places = []
    monkeypatch.setattr(Meetings, "shared", lambda self, place, *args, shared=Meetings.shared: (
        places.append(place), shared(self, place, *args))[1])  # fmt: skip
    for method in (METHOD, CATALOGUE["drfa"].example()):
        simulate(method, devices=2, lanes=2)
    assert places == [0, 0, 1]


LATE = """
import threading, time
import fedloom as fl
clients = fl.data.partition(fl.data.load("digits"), "iid", clients=4)
method, problem = fl.algorithms.FedAvg(lr=0.1, local_steps=2), fl.problems.Multinomial()
def run():
    fl.simulate(method, problem, clients, rounds=2, batch_size=8, progress=False)
    time.sleep(0.5)
    options = dict(rounds=3, batch_size=8, devices=2, lanes=1, progress=False)
    print(fl.simulate(method, problem, clients, **options).status)
threading.Thread(target=run).start()
"""


@SEVERAL
def test_a_run_outlives_the_main_thread():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "done", done.stderr


def test_one_crew_works_at_a_time(monkeypatch):
    first, second = trial(monkeypatch), trial(monkeypatch)
    assert first.learn(100, 1.0, left=10**6, cost=1.0)
    assert not second.learn(100, 1.0, left=10**6, cost=1.0)
    assert second.crew is None
    first.end()


@SEVERAL
def test_a_run_by_choice_ends_with_the_same_bits(monkeypatch):
    alone = simulate(devices=1, lanes=2)
    monkeypatch.setattr(all_cores, "LEAST", 0.0)
    monkeypatch.setattr(all_cores, "_WORTH", 0.0)
    tried = []
    monkeypatch.setattr(AllCores, "_take_on", lambda self, size, take=AllCores._take_on: (
        tried.append(size), take(self, size)))  # fmt: skip
    assert_same_bits(alone, simulate(lanes=2))
    assert tried == [min(cores(), 7)]


def test_runs_side_by_side_have_a_core_each(monkeypatch):
    asked = []
    result = simulate(rounds=1)
    monkeypatch.setattr(many_runs, "simulate", lambda *_, **how: asked.append(how) or result)
    jobs = [many_runs.PlannedRun(METHOD, PROBLEM, seed) for seed in (0, 1)]
    many_runs.simulate_many(jobs, CLIENTS, rounds=2)
    assert [options["devices"] for options in asked] == [1, 1]
    many_runs.simulate_many(jobs[:1], CLIENTS, rounds=2)
    assert "devices" not in asked[2]  # alone, it may have all


@pytest.mark.parametrize(
    ("size", "lanes", "expected"),
    [(20, None, 1), (20, 20, 1), (20, 18, 2), (10, 3, 5), (13, 3, 7), (10, 1, 10), (7, 4, 2)],
)
def test_parts_are_alike_and_leave_few_places_empty(size, lanes, expected):
    assert number_of_parts(size, lanes) == expected


def test_parts_do_not_depend_on_the_machine(monkeypatch):
    made = [trial(monkeypatch, lanes=None).plan]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(64), raising=False)
    made.append(trial(monkeypatch, lanes=None).plan)
    assert made == [Plan(17, None)] * 2
