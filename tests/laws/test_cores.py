"""However many threads compute a cohort, the same bits come out."""

import jax
import numpy as np
import pytest

from fedloom.rounds.crew import cores
from laws.trials import ALL, run


@pytest.mark.thorough  # tests/core/test_all_cores.py tries some in every test run
@pytest.mark.skipif(cores() < 2, reason="a crew has no more members than there are cores")
@pytest.mark.parametrize("entry", [e for e in ALL if e.kind != "vertical"], ids=lambda e: e.key)
def test_two_threads_give_the_bits_of_one(entry):
    one, two = (run(entry, devices=n, lanes=1) for n in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, one.state, two.state)
    assert one.final == two.final | {"seconds": one.final["seconds"]}
