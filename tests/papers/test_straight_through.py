"""Training through the quantiser: the straight-through estimator and LSQ, as QuPeD's options."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.algorithms import Quantisation, QuantisedTraining, QuPeD, QuPeL
from fedloom.algorithms.personal.quantisation import QuantisedModel, move
from fedloom.errors import ParameterError
from fedloom.operators.quantisers import Quantiser
from papers import personal_baselines
from papers.personal import Levels
from papers.reference import Draws
from papers.test_personal import ALIKE, CLIENTS, NET, by_client, close, first_state, simulate
from tiers import in_turn

PART = slice(2, 8)  # of the network of ALIKE: the hidden layer's weights


def trained(training, step, first, bits=2):
    """Both ways of four rounds; `step(x, c, slope)` and `first(x)` are the transcription's."""
    quantise = Quantisation(bits=bits, training=training, centre_lr=0.3, pull=0.5)
    method = QuantisedTraining(quantise=quantise, lr=0.2, local_steps=3)
    _, clients = first_state(method, ALIKE)
    result = simulate(method, ALIKE, metrics=("loss",))
    drawn = Draws(NET, 4)
    for i, state in enumerate(by_client(ALIKE, result.state.clients)):
        x = clients[i].point.model
        c = first(x)
        for r in range(1, 5):
            for batch in drawn.batches(r, 1, i, 3):
                x, c = step(x, c, lambda v: NET.grad(i, v, batch))  # noqa: B023
        yield method, result, i, state.point, x, c


def test_the_straight_through_estimator_follows_its_listing(double):
    def step(x, c, slope):
        return personal_baselines.straight_through_step(x, c, PART, slope, lr=0.2, centre_lr=0.3)

    first = lambda x: Levels(2, 8, pull=0, centre_lr=0).first(x, 4)  # noqa: E731
    for *_, point, x, c in trained("straight-through", step, first):
        close(point.model, x)
        close(point.centres[0], c)


@pytest.mark.parametrize("bits", [2, 3])
def test_lsq_follows_its_listing_and_deploys_multiples_of_its_step(bits, double):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def step(x, s, slope):
        return personal_baselines.lsq_step(x, s, PART, slope, bits=bits, lr=0.2, centre_lr=0.3)

    moved = []
    first = lambda x: 2 * np.abs(x[PART]).mean() / np.sqrt(high)  # noqa: E731
    for method, result, i, point, x, s in trained("lsq", step, first, bits):
        close(point.model, x)
        close(point.centres[0], s * np.arange(low, high + 1))
        deployed = x.copy()
        deployed[PART] = s * np.rint(np.clip(x[PART] / s, low, high))
        right = NET.log_probs(i, deployed, slice(None))[np.arange(len(NET.y[i])), NET.y[i]]
        close(result.client_metrics["loss"][i], -right.mean())
        moved.append(np.abs(point.model - first_state(method, ALIKE)[1][i].point.model).max())
    assert min(moved) > 0.01


@pytest.mark.parametrize("training", in_turn(["straight-through", "lsq"], ["lsq"]))
def test_learned_levels_are_worth_more_than_those_of_the_start(training):
    """As LSQ's paper says of its step: on average over clients, at 2 bits."""
    run = {"precision": "float32", "rounds": 40, "metrics": ("loss",), "batch_size": None}

    def loss(centre_lr):
        quantise = Quantisation(bits=2, training=training, centre_lr=centre_lr)
        method = QuantisedTraining(quantise=quantise, lr=0.1, local_steps=20)
        return simulate(method, ALIKE, CLIENTS, **run).final["loss"]

    assert loss(0.3) < loss(0.0) - 0.05


@pytest.mark.parametrize("method", [QuPeD, QuPeL])
def test_every_method_that_quantises_takes_them(method):
    """And its common model learns from the quantised own ones alone."""
    run = {"precision": "float32", "rounds": 3}
    quantise = Quantisation(bits=2, training="lsq", centre_lr=0.05)
    result = simulate(method(lr=0.1, quantise=quantise), ALIKE, **run)
    for client in by_client(ALIKE, result.state.clients):
        assert np.isfinite(client.model).all() and (np.diff(client.centres[0]) > 0).all()


def test_what_they_cannot_do_is_refused():
    with pytest.raises(ParameterError, match="bits must be at least 2 where training is 'lsq'"):
        simulate(QuantisedTraining(lr=0.1, quantise=Quantisation(training="lsq")), ALIKE)
    with pytest.raises(ParameterError, match="sharpness must be none where training is 'lsq'"):
        Quantisation(training="lsq", sharpness=2.0)


@pytest.mark.parametrize("bits", [2, 3])
def test_frozen_weights_of_lsq_follow_their_step_by_its_true_slope(bits, double):
    """Frozen weights are k s, so that the loss depends on s by the sum of k times its slopes."""
    quantise = Quantisation(bits=bits, training="lsq", freeze_after=0, tuning_centre_lr=0.1)
    f = SimpleNamespace(
        quantiser=lambda bits, sharpness: Quantiser(((0, 5),), 2**bits, sharpness), batches=1
    )
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    k, s, aim = jnp.array([-2.0, -1, 0, 1, 1]), 0.37, jnp.array([0.5, -1, 2, 0.3, -0.8])
    point = QuantisedModel(k * s, s * jnp.arange(low, high + 1.0)[None], jnp.zeros((), int))
    moved = move(quantise, f, point, lambda v: v - aim, jnp.zeros(5), jnp.asarray(0.0))
    slope = float(k @ (k * s - aim))
    expected = s - 0.1 * slope / np.sqrt(5 * high)
    close(moved.centres[0], expected * np.arange(low, high + 1))
    close(moved.model, expected * k)


def test_lsq_begins_where_a_layer_is_zero(double):
    centres = Quantiser(((0, 4), (4, 8)), 4, None, "lsq").first_centres(jnp.zeros(8).at[4:].set(1))
    assert np.all(np.isfinite(centres)) and np.all(np.diff(centres, axis=1) > 0)
