"""What a device's memory decides: clients side by side, rows on the host, numbers of a network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import ParameterError
from fedloom.simulator import lanes, places, task
from fedloom.simulator.task import Task

CLIENTS = fl.data.partition(fl.data.load("digits"), "label", clients=6, classes_each=2)
METHOD = fl.algorithms.FedAvg(lr=0.1, local_steps=2)
PROBLEM = fl.problems.Supervised(fl.models.MLP(hidden=(32,)))
LARGE = fl.problems.Supervised(fl.models.MLP(hidden=(260,)))


def simulate(problem=PROBLEM, **options):
    return fl.simulate(METHOD, problem, CLIENTS, rounds=2, progress=False, **options)


def close(a, b, tolerance):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_lanes_change_the_rounding_alone():
    whole = simulate()
    for count in (1, 4, 6):  # six are all of them, in one part
        divided = simulate(lanes=count)
        close(divided.model, whole.model, 1e-5)
        assert divided.about["lanes"] == count
    assert whole.about["lanes"] == 1  # so much does a client compute in a step


@pytest.mark.parametrize("count", [0, 1.5, "all"])
def test_lanes_must_be_a_number_of_clients(count):
    with pytest.raises(ParameterError, match="lanes must be a whole number >= 1"):
        simulate(lanes=count)


@pytest.mark.parametrize(
    ("free", "expected", "tries"),
    [(10_000, 100, [100]), (1000, 5, [100, 10, 5]), (550, 5, [100, 5]), (40, 1, [100])],
)
def test_as_many_lanes_as_fit(free, expected, tries):
    """A client needs 100 bytes, the rest 10."""
    asked = []

    def needed(count):
        asked.append(count)
        return 100 * count + (10 if count < 100 else 0)

    assert lanes.as_many_as_fit(needed, 100, free) == expected
    assert asked == tries


def test_a_program_in_portions_needs_less_memory_and_is_chosen(capsys):
    made = Task(
        METHOD, LARGE, CLIENTS, batch_size=32, metrics=None, precision="float32", optimum=None,
        devices=None, deterministic=True, lanes=6,
    )  # fmt: skip
    root = jax.random.key(0)
    made.plan = made.plan._replace(lanes=None)
    state = made.opening(METHOD, made.federation, root, plan=made.plan)[:2]
    count = jnp.zeros((), jnp.int32)
    needs = {
        n: lanes.memory_of(
            made.rounds_for(0), METHOD, made.federation, *state, root, count, count,
            plan=made.plan._replace(lanes=n),
        )
        for n in (6, 3, 1)
    }  # fmt: skip
    assert needs[1] < needs[3] < needs[6]
    assert lanes.fitted(made, METHOD, root, 10**12) == made.plan
    assert capsys.readouterr().err == ""
    fewer = lanes.fitted(made, METHOD, root, 2 * needs[6]).lanes  # evaluations need more
    assert fewer in (1, 2, 3)
    assert f"{fewer} of 6 clients are computed side by side" in capsys.readouterr().err


def test_a_run_that_is_out_of_memory_goes_on_with_half_as_many(monkeypatch, capsys):
    whole = simulate(LARGE, lanes=6)
    compiled, tried = task.compiled, []

    def small_card(function, *static, **how):
        program = compiled(function, *static, **how)

        def call(*args, plan, **named):
            if function.__name__ == "rounds":
                tried.append(plan.lanes)
                if plan.lanes > 2:
                    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
            return program(*args, plan=plan, **named)

        return call

    monkeypatch.setattr(task, "compiled", small_card)
    halved = simulate(LARGE, lanes=6)
    assert tried[:3] == [6, 3, 1] and halved.about["lanes"] == 1
    said = capsys.readouterr().err
    assert "3 of 6 clients" in said and "1 of 6 clients" in said
    close(halved.model, whole.model, 1e-5)
    again = fl.simulate(METHOD, LARGE, CLIENTS, rounds=3, resume=halved, lanes=1, progress=False)
    assert again.about["lanes"] == 1


def test_another_error_of_the_device_is_not_taken_for_a_want_of_memory():
    error = jax.errors.JaxRuntimeError("INTERNAL: something else")
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        lanes.halved(task.Plan(4, None), 4, error)


def test_rows_that_do_not_fit_stay_on_the_host_and_give_the_same_bits(monkeypatch, capsys):
    here = simulate()
    monkeypatch.setattr(places, "free_memory", lambda: CLIENTS.train.x.nbytes)
    streamed = simulate()
    assert "rows stay in the host's memory" in capsys.readouterr().err
    assert all(map(np.array_equal, jax.tree.leaves(here.model), jax.tree.leaves(streamed.model)))
    assert here.final == streamed.final | {"seconds": here.final["seconds"]}


def test_a_network_in_bfloat16_keeps_its_arrays_at_the_runs_precision():
    full, half = simulate(), simulate(fl.problems.Supervised(PROBLEM.model, compute="bfloat16"))
    assert {leaf.dtype for leaf in jax.tree.leaves(half.model)} == {np.dtype("float32")}
    apart = [
        np.abs(one - other).max()
        for one, other in zip(*map(jax.tree.leaves, (full.model, half.model)), strict=True)
    ]
    assert 1e-5 < max(apart) < 1e-2  # products of eight binary digits


def test_rematerialising_changes_no_number_but_keeps_products_only():
    again = fl.problems.Supervised(PROBLEM.model, rematerialise=True)
    close(simulate(again).model, simulate().model, 1e-6)
    model = PROBLEM.init(jax.random.key(0), fl.rows.Spec((64,), 10, "float32"))
    rows = fl.rows.Rows(jnp.ones((5, 64)), jnp.zeros(5, int))

    def loss(problem):
        return str(jax.make_jaxpr(jax.grad(lambda m: problem.losses(m, rows).sum()))(model))

    assert "remat" in loss(again) and "remat" not in loss(PROBLEM)


def test_personal_problems_take_both_to_all_networks():
    problem = fl.problems.Personal(PROBLEM.model, compute="bfloat16", rematerialise=True)
    own = problem.groups(CLIENTS)[0][0].own
    assert (own.compute, own.rematerialise) == ("bfloat16", True)


def test_columns_of_parties_stay_where_they_are(monkeypatch, capsys):
    parties = fl.data.partition(fl.data.load("digits"), "features", parties=2)
    problem = fl.problems.Vertical(loss="softmax")
    monkeypatch.setattr(places, "free_memory", lambda: 1)
    fl.simulate(fl.algorithms.VerticalGD(), problem, parties, rounds=1, progress=False)
    assert capsys.readouterr().err == ""


def test_evaluations_of_all_clients_keep_to_the_lanes_of_a_small_cohort():
    method = fl.algorithms.FedAvg(lr=0.1, local_steps=2, cohort=2)
    made = Task(
        method, LARGE, CLIENTS, batch_size=32, metrics=None, precision="float32", optimum=None,
        devices=None, deterministic=True, lanes=6,
    )  # fmt: skip
    made.plan = made.plan._replace(lanes=None)
    assert lanes.fitted(made, method, jax.random.key(0), 10**12).lanes == 2
