"""Flips and crops: of the images of a batch, by its key, and of nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom import draws
from fedloom.checking import engines
from fedloom.checking.case import Case
from fedloom.checking.federations import Trial
from fedloom.errors import DataError, ParameterError
from fedloom.problems import Augmentation
from fedloom.rows import Batch, Rows

KEY = draws.key(5)
IMAGES = np.random.default_rng(0).normal(size=(64, 6, 5, 2)) + 10  # no zeros
BATCH = Batch(Rows(IMAGES, np.arange(64)), None)


def test_every_other_image_is_mirrored():
    got = np.asarray(Augmentation(crop=0).of(BATCH, KEY).rows.x)
    with jax.enable_x64(False):
        same = np.isclose(got, IMAGES).all((1, 2, 3))
        mirrored = np.isclose(got, IMAGES[:, :, ::-1]).all((1, 2, 3))
    assert (same ^ mirrored).all() and 16 < mirrored.sum() < 48


def test_a_crop_is_a_shift_with_zeros_behind():
    got = np.asarray(Augmentation(flip=False, crop=2).of(BATCH, KEY).rows.x)
    padded = np.pad(IMAGES, ((0, 0), (2, 2), (2, 2), (0, 0)))
    shifts = []
    for image, around in zip(got, padded, strict=True):
        found = [
            (i, j)
            for i in range(5)
            for j in range(5)
            if np.allclose(image, around[i : i + 6, j : j + 5])
        ]
        assert len(found) == 1
        shifts += found
    assert len(set(shifts)) > 15  # of 25


def test_a_rows_draws_do_not_depend_on_how_many_there_are():
    """Clients of unequal sizes are padded in the simulator, and are not at a site."""
    few = Batch(Rows(IMAGES[:7], np.arange(7)), None)
    both = [Augmentation().of(batch, KEY).rows.x[:7] for batch in (BATCH, few)]
    np.testing.assert_array_equal(*both)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(2)
    parts = [(rng.normal(size=(m, 4, 4, 1)), np.arange(m) % 3) for m in (5, 9)]
    model = fl.models.MLP((4,))
    problem = fl.problems.Personal(model, augment=Augmentation(crop=1))
    method = fl.algorithms.MutualLearning(lr=0.1, local_steps=2)
    return Case(method, Trial(problem, fl.data.from_arrays(parts)), rounds=2, batch_size=6)


def test_engines_agree_on_augmented_batches(case):
    engines.agree(case)


def test_gradients_of_batches_see_it_and_full_ones_and_metrics_do_not(case):
    clients = case.trial.clients
    plain = fl.problems.Supervised(fl.models.MLP((4,)))
    problem = fl.problems.Supervised(fl.models.MLP((4,)), augment=Augmentation(crop=1))
    from fedloom.population import assemble

    f, g = (assemble(p, clients, 6, "float32").groups[0].objective(1) for p in (problem, plain))
    w = jnp.asarray(np.random.default_rng(1).normal(size=f.layout.size), "float32")
    assert not np.allclose(f.grad(w, KEY), g.grad(w, KEY), atol=1e-3)
    np.testing.assert_array_equal(f.full_grad(w), g.full_grad(w))
    np.testing.assert_array_equal(f.full_value(w), g.full_value(w))


def test_what_cannot_be_augmented_is_refused_in_words():
    flat = Batch(Rows(np.ones((4, 7)), np.arange(4)), None)
    with pytest.raises(DataError, match=r"augment needs images .*; rows have shape \(7,\)"):
        Augmentation().of(flat, KEY)
    with pytest.raises(ParameterError, match="augment must be an augmentation, such as"):
        fl.problems.Supervised(fl.models.MLP(), augment=True)
