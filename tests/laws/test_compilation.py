"""Recompilation is a bug: new numbers must not need a new program."""

import pytest

from fedloom.checking import compilation
from laws.trials import IN_TURN, case


@pytest.mark.parametrize("entry", IN_TURN)
def test_new_numbers_need_no_new_program(entry):
    compilation.new_numbers_need_no_new_program(case(entry))


@pytest.mark.parametrize("entry", [p for p in IN_TURN if p.values[0].trial])
def test_a_sweep_is_a_vmap(entry):
    """Conjugate gradients have no parameter to sweep over."""
    compilation.a_sweep_is_a_vmap(case(entry))
