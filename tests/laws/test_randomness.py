"""The same seed gives the same bits; another seed does not, if anything is drawn."""

import pytest

from fedloom.checking import randomness
from laws.trials import IN_TURN, case


@pytest.mark.parametrize("entry", IN_TURN)
def test_same_seed_same_bits(entry):
    looked_at = randomness.follows_seeds(case(entry))
    assert (looked_at == "nothing is drawn") == entry.deterministic


@pytest.mark.parametrize("entry", IN_TURN)
def test_a_method_is_the_same_program_each_time_it_is_read(entry):
    randomness.is_pure(case(entry))
