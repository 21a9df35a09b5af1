"""Clients have no order: numbering them otherwise changes nothing but rounding."""

import dataclasses

import jax
import numpy as np
import pytest

import fedloom as fl
from laws.trials import ALL, KEYS, trial


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
def test_client_order_is_irrelevant(entry):
    tried, example = trial(entry.kind), entry.example()
    # Everyone takes part and gradients are full, so that nothing is drawn.
    fixed = {
        "cohort": None,
        "stragglers": 0,
        "noise": 0.0,
        "drop": 0.0,
        "late": 0.0,
        "columns": 100,
    }
    names = {field.name for field in dataclasses.fields(example)}
    example = dataclasses.replace(example, **{n: v for n, v in fixed.items() if n in names})
    turned = tried.turned((2, 0, 3, 1))
    settings = {"rounds": 4, "batch_size": None, "precision": "float64"}
    one = fl.simulate(example, tried.problem, tried.clients, **settings)
    other = fl.simulate(example, turned.problem, turned.clients, **settings)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)  # noqa: E731
    jax.tree.map(close, one.model, other.model)
