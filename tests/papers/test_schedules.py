"""Step sizes that change from round to round: formulas by hand, in two methods and outside."""

import math

import numpy as np
import pytest

import fedloom as fl
from fedloom.checking import compilation, secrecy
from fedloom.checking.case import Case
from fedloom.checking.federations import trial
from fedloom.errors import ParameterError
from fedloom.protocol import at_round
from fedloom.schedules import Cosine, Exponential, Steps, Warmup
from papers import averaging
from papers.reference import Draws, LogisticClients
from papers.test_averaging import CLIENTS, FEDERATION, PROBLEM, close, simulate


def cosine(start, rounds, end):
    return lambda t: end + (start - end) * (1 + math.cos(math.pi * min(t / rounds, 1))) / 2


# After t rounds, so that the first round has the value for 0; runs have 5 rounds.
SCHEDULES = {
    "exponential": (Exponential(0.3, 0.8), lambda t: 0.3 * 0.8**t),
    "cosine": (Cosine(0.3, 3, end=0.05), cosine(0.3, 3, 0.05)),
    "steps": (Steps(0.3, at=(1, 3), factor=0.5), lambda t: 0.3 * 0.5 ** ((t >= 1) + (t >= 3))),
    "warmup": (
        Warmup(2, Cosine(0.3, 4, end=0.05)),
        lambda t: [0.15, 0.3][t] if t < 2 else cosine(0.3, 4, 0.05)(t - 2),
    ),
    "warmup to a number": (Warmup(3, 0.3), lambda t: [0.1, 0.2, 0.3, 0.3, 0.3][t]),
}


def with_schedule(kind):
    """Options of a method, and those of its transcription."""
    schedule, formula = SCHEDULES[kind]
    return (
        {"lr": schedule, "local_steps": 4, "cohort": 3},
        {"steps": 4, "cohort": 3, "rounds": 5, "lr": lambda r: formula(r - 1)},
    )


@pytest.mark.parametrize("kind", SCHEDULES)
def test_fedavg_takes_the_step_size_of_the_round(kind, double):
    settings, own = with_schedule(kind)
    got = simulate(fl.algorithms.FedAvg(**settings))
    close(got.model, averaging.fedavg(CLIENTS, Draws(CLIENTS, 4), **own))


@pytest.mark.parametrize("kind", SCHEDULES)
def test_scaffold_takes_the_step_size_of_the_round(kind, double):
    settings, own = with_schedule(kind)
    got = simulate(fl.algorithms.Scaffold(**settings))
    x, c, c_i = averaging.scaffold(CLIENTS, Draws(CLIENTS, 4), **own)
    close(got.model, x)
    close(got.state.hub.control, c)
    close(got.state.clients[0].control, c_i)


def test_the_hubs_step_size_may_be_one_too(double):
    """With one full local step of 1, a scheduled hub makes plain descent with that step size."""
    method = fl.algorithms.FedAvg(lr=1.0, local_steps=1, server_lr=Exponential(0.5, 0.9))
    got = simulate(method, batch_size=None)
    w = np.zeros(CLIENTS.d)
    for t in range(5):
        w = w - 0.5 * 0.9**t * CLIENTS.pooled_grad(w)
    close(got.model, w)


def test_the_opening_has_the_step_size_of_the_first_round_and_numbers_stay():
    method = fl.algorithms.Private(
        fl.algorithms.FedAvg(lr=Exponential(0.5, 0.1), server_lr=0.7), clip=1.0, noise=0.0
    )
    values = [float(at_round(method, r).inner.lr) for r in range(4)]
    close(values, [0.5, 0.5, 0.05, 0.005], 1e-6)
    assert at_round(method, 3).inner.server_lr == 0.7
    plain = fl.algorithms.FedAvg(lr=0.5)
    assert at_round(plain, 3) == plain


def test_secure_sums_apply_to_a_method_whose_hub_has_a_schedule():
    method = fl.algorithms.FedAvg(lr=0.1, server_lr=Exponential(1.0, 0.9))
    small = Case(method, trial("smooth"), rounds=2)
    assert secrecy.sums_suffice(small) == "weighted sums"


def test_other_numbers_of_a_schedule_need_no_new_program():
    def method(start, rounds, end, at):
        lr = Warmup(2.0, Cosine(start, rounds, end=end))
        return fl.algorithms.FedAvg(lr=lr, local_steps=2, server_lr=Steps(1.0, at=at))

    simulate(method(0.3, 4, 0.1, (2, 3)))
    with compilation._readings(fl.algorithms.FedAvg) as readings:
        simulate(method(0.2, 9, 0.01, (1, 4)), rounds=7)
        assert not readings
        simulate(method(0.2, 9, 0.01, (1, 2, 4)))  # one more milestone is another structure
        assert readings


def test_a_run_that_stops_amid_a_schedule_goes_on_as_if_it_had_not():
    method = fl.algorithms.Scaffold(lr=SCHEDULES["warmup"][0], local_steps=4, cohort=3)
    whole, part = simulate(method), simulate(method, rounds=3)
    resumed = simulate(method, resume=part)
    np.testing.assert_array_equal(whole.model, resumed.model)
    np.testing.assert_array_equal(whole.state.clients[0].control, resumed.state.clients[0].control)


def test_a_sweep_goes_over_the_numbers_of_a_schedule():
    clients = fl.data.from_arrays(LogisticClients(sizes=(20, 20)).parts())
    methods = {"fedavg": fl.algorithms.FedAvg(lr=Exponential(0.3), local_steps=2)}
    found = fl.sweep(
        methods, PROBLEM, clients, over={"lr.decay": [0.5, 0.9], "lr.start": [0.1, 0.3]},
        rounds=4, batch_size=4, metric="loss",
    )  # fmt: skip
    assert {(row["lr.start"], row["lr.decay"]) for row in found.rows} == {
        (start, decay) for start in (0.1, 0.3) for decay in (0.5, 0.9)
    }
    best = min(found.rows, key=lambda row: row["loss"])
    assert found.best["fedavg"].algorithm.lr == Exponential(best["lr.start"], best["lr.decay"])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Exponential(0.0), "Exponential: start must be a number > 0; got 0.0"),
        (lambda: Cosine(0.1, 2.5), "Cosine: rounds must be a whole number >= 1; got 2.5"),
        (lambda: Steps(0.1, at=()), r"Steps: at must be a list of whole numbers >= 1; got \(\)"),
        (lambda: Warmup(3, -1.0), "Warmup: after must be a number > 0, or a schedule; got -1.0"),
        (lambda: fl.algorithms.FedAvg(lr="cosine"), "lr must be a number > 0, or a schedule"),
        (lambda: fl.algorithms.FedProx(lr=0.1, mu=Exponential(0.1)), "mu must be a number >= 0"),
    ],
)
def test_what_is_no_schedule_is_refused_in_words(wrong, told):
    with pytest.raises(ParameterError, match=told):
        wrong()


def test_one_of_ones_own_is_taken(double):
    from fedloom.protocol import param, parametrised, positive

    @parametrised
    class Harmonic(fl.schedules.Schedule):
        start: float = param(positive, "step size in the first round")

        def value(self, done):
            return self.start / (1 + done)

    got = fl.simulate(
        fl.algorithms.FedAvg(lr=Harmonic(0.3), local_steps=4), PROBLEM, FEDERATION, rounds=3,
        batch_size=4, precision="float64",
    )  # fmt: skip
    expected = averaging.fedavg(
        CLIENTS, Draws(CLIENTS, 4), lr=lambda r: 0.3 / r, steps=4, cohort=None, rounds=3
    )
    close(got.model, expected)
