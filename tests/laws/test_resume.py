"""A run that stops and goes on ends with the same bits as one that never stopped."""

import jax
import numpy as np
import pytest

import fedloom as fl
from laws.trials import ALL, KEYS, ROUNDS, run


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
def test_resume_is_exact(entry, tmp_path):
    whole = run(entry)
    run(entry, rounds=ROUNDS // 2).save(tmp_path / "half")
    resumed = run(entry, resume=fl.load(tmp_path / "half"))
    jax.tree.map(np.testing.assert_array_equal, whole.state, resumed.state)
    assert len(whole.rows) == len(resumed.rows)
    for row, again in zip(whole.rows, resumed.rows, strict=True):
        assert row | {"seconds": 0} == again | {"seconds": 0}
