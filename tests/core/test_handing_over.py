"""States that blocks of rounds write over, and the way back from a block that failed."""

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import DivergedError
from fedloom.simulator import handing_over, simulation, task
from fedloom.simulator.handing_over import is_gone

CLIENTS = fl.data.partition(fl.data.load("digits"), "label", clients=6, classes_each=2)
PROBLEM = fl.problems.Multinomial(l2=0.1)
METHOD = fl.algorithms.Scaffold(lr=0.1, local_steps=2, cohort=3)


def run(method=METHOD, rounds=9, **options):
    options = {"eval_every": 3, "progress": False} | options
    return fl.simulate(method, PROBLEM, CLIENTS, rounds=rounds, **options)


def assert_same(one, other):
    assert all(map(np.array_equal, *map(jax.tree.leaves, (one.state, other.state))))
    rows = [[row | {"seconds": 0} for row in result.rows] for result in (one, other)]
    assert str(rows[0]) == str(rows[1])  # nan is not nan
    assert one.about["bytes_up"] == other.about["bytes_up"] > 0


@pytest.fixture(autouse=True)
def all_states_are_large(monkeypatch):
    """Small ones are not written over."""
    monkeypatch.setattr(handing_over, "LARGE", 0)


@pytest.fixture
def rounds_one_by_one(monkeypatch):
    """Every round is a block, and the only state to go back to is the first."""
    monkeypatch.setattr(simulation, "_CALL_SECONDS", 0.0)
    monkeypatch.setattr(handing_over, "_SECONDS", 1e9)


def through(monkeypatch, hook):
    """Let a hook see every block: it gets the program, its arguments and its last round."""
    compiled = task.compiled

    def watched(function, *static, **how):
        program = compiled(function, *static, **how)
        if function.__name__ != "rounds":
            return program
        return lambda *args, **named: hook(lambda: program(*args, **named), args[2:4], int(args[6]))

    monkeypatch.setattr(task, "compiled", watched)


def test_a_block_takes_the_state_that_it_is_given(monkeypatch):
    whole, gone = run(), []

    def hook(program, given, stop):
        outcome = jax.block_until_ready(program())
        gone.append(all(leaf.is_deleted() for leaf in jax.tree.leaves(given)))
        return outcome

    through(monkeypatch, hook)
    assert_same(run(), whole)
    assert all(gone) and gone


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_diverged_run_has_its_last_good_state_however_old_the_kept_one_is(monkeypatch, seconds):
    monkeypatch.setattr(simulation, "_CALL_SECONDS", 0.0)
    monkeypatch.setattr(handing_over, "_SECONDS", seconds)
    with pytest.raises(DivergedError) as caught:
        run(fl.algorithms.Scaffold(lr=1e4, local_steps=2, cohort=3), rounds=40, eval_every=40)
    found = caught.value.result
    last = int(found.state.round)
    assert 1 < last < 40 and np.isfinite(jax.tree.leaves(found.state.hub)[0]).all()
    method = fl.algorithms.Scaffold(lr=1e4, local_steps=2, cohort=3)
    assert_same(found, run(method, rounds=last, eval_every=40))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, jax.errors.JaxRuntimeError])
def test_what_a_failed_block_took_is_computed_again(monkeypatch, rounds_one_by_one, kind, capsys):
    whole, failed = run(rounds=5, lanes=6), []

    def hook(program, given, stop):
        outcome = jax.block_until_ready(program())
        if stop == 6 and not failed:
            failed.append(is_gone(simulation.State(0, *given)))
            raise kind("RESOURCE_EXHAUSTED")
        return outcome

    through(monkeypatch, hook)
    result = run(lanes=6)
    assert failed == [True]
    if kind is KeyboardInterrupt:
        assert result.status == "interrupted" and int(result.state.round) == 5
        assert_same(result, whole)
    else:
        assert result.status == "done" and int(result.state.round) == 9
        assert result.about["bytes_up"] == run().about["bytes_up"]


def test_a_checkpoint_stays_as_it_was_when_later_blocks_are_done(monkeypatch):
    monkeypatch.setattr(simulation, "_CALL_SECONDS", 0.0)
    kept = []
    run(checkpoint=kept.append, checkpoint_seconds=0)
    assert len(kept) > 2
    assert all(result.rows[-1]["round"] <= int(result.state.round) for result in kept)
    for result in kept[:3]:
        again = run(rounds=int(result.state.round))
        assert all(map(np.array_equal, *map(jax.tree.leaves, (result.state, again.state))))


def test_a_first_state_that_is_the_problems_own_array_is_not_taken_away():
    """DRFA begins with the weights of the clients."""
    method = fl.algorithms.DRFA(lr=0.1, weight_lr=0.1, cohort=3)
    first = run(method, rounds=4)
    assert_same(run(method, rounds=9), run(method, rounds=9, resume=first))


def test_copies_share_nothing():
    one = jax.numpy.ones(4)
    state = handing_over.State(3, (one, one), ())
    made = handing_over.copied(state)
    pointers = [leaf.unsafe_buffer_pointer() for leaf in (one, *made.hub)]
    assert made.round == 3 and len(set(pointers)) == 3 and not is_gone(made)
