"""Programs are kept on disk while fedloom runs, and JAX is set as the user left it afterwards."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import fedloom as fl
from fedloom.rounds import compiling as module
from fedloom.rounds.compiling import kept_programs
from fedloom.simulator.many_runs import PlannedRun, simulate_many

NAMES = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def settings():
    return [getattr(jax.config, name) for name in NAMES]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of fedloom's that is empty, and a user who has no other but keeps every program."""
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_WORTH_KEEPING", 0.0)
    before = settings()
    for name, value in zip(NAMES, (None, 0.0), strict=True):
        jax.config.update(name, value)
    reset_cache()
    yield tmp_path / "cache" / "programs"
    for name, value in zip(NAMES, before, strict=True):
        jax.config.update(name, value)
    reset_cache()


def compile_something():
    """A program that nobody has compiled yet."""
    jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(3)))


def run(**options):
    clients = fl.data.from_arrays([(np.eye(3), [0, 1, 0])] * 2)
    return fl.simulate(fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), clients, **options)


def test_jax_is_set_after_a_run_as_it_was_before(folder):
    before, seen = settings(), []
    run(rounds=2, on_evaluation=lambda row: seen.append(settings()))
    assert seen[-1] == [str(folder), 0.0]
    assert settings() == before


def test_so_it_is_after_a_run_that_failed(folder):
    before = settings()

    def fail(row):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run(rounds=2, on_evaluation=fail)
    assert settings() == before


def test_what_the_user_compiles_afterwards_is_not_kept(folder):
    with kept_programs():
        compile_something()
    kept = set(folder.iterdir())
    assert kept
    compile_something()
    assert set(folder.iterdir()) == kept


def test_a_folder_that_the_user_has_set_is_used_and_stays(folder, tmp_path):
    jax.config.update(NAMES[0], str(tmp_path / "own"))
    before = settings()
    with kept_programs():
        compile_something()
        assert settings() == before
    assert settings() == before
    assert any((tmp_path / "own").iterdir()) and not folder.exists()


def test_a_folder_that_the_user_sets_meanwhile_stays_and_is_used(folder, tmp_path):
    with kept_programs():
        compile_something()
        jax.config.update(NAMES[0], str(tmp_path / "own"))
    assert settings() == [str(tmp_path / "own"), 0.0]
    compile_something()
    assert any((tmp_path / "own").iterdir())


def test_nothing_is_kept_where_the_cache_is_off(folder, monkeypatch):
    monkeypatch.setenv("FEDLOOM_CACHE", "off")
    before = settings()
    with kept_programs():
        assert settings() == before


def test_the_last_thread_that_leaves_puts_it_back(folder):
    before, may_leave = settings(), threading.Event()
    inside = threading.Event()

    def stay():
        with kept_programs():
            inside.set()
            may_leave.wait(30)

    other = threading.Thread(target=stay)
    with kept_programs():
        other.start()
        assert inside.wait(30)
    assert settings() == [str(folder), 0.0]  # the other one is still at it
    may_leave.set()
    other.join(30)
    assert settings() == before


def test_runs_in_threads_leave_it_as_it_was(folder):
    before = settings()
    clients = fl.data.from_arrays(
        [(np.eye(17), [0] * 16 + [1])] * 2
    )  # no other test has this shape
    jobs = [
        PlannedRun(fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), seed) for seed in range(6)
    ]
    assert len(simulate_many(jobs, clients, rounds=2)) == 6
    assert settings() == before
    assert any(folder.iterdir())


_FRESH = """
import jax, numpy as np, fedloom as fl
found = []
jax.monitoring.register_event_listener(
    lambda event, **_: found.append(event) if event.endswith('cache/cache_hits') else None
)
clients = fl.data.from_arrays([(np.eye(3), [0, 1, 0])] * 2)
fl.simulate(fl.algorithms.Scaffold(lr=0.1), fl.problems.Logistic(), clients, rounds=2)
assert jax.config.jax_compilation_cache_dir is None
print(len(found))
"""


def test_a_second_process_finds_the_programs_of_the_first(tmp_path):
    unset = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}

    def hits():
        done = subprocess.run(
            [sys.executable, "-c", _FRESH],
            env=unset | {"FEDLOOM_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    first = hits()
    kept = {path.name for path in (tmp_path / "programs").glob("*-cache")}
    assert kept and first == 0
    assert hits() >= len(kept)
