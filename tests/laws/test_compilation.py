"""Recompilation is a bug: new numbers must not need a new program."""

import pytest

from fedloom.checking import compilation
from laws.trials import ALL, KEYS, case


@pytest.mark.parametrize("entry", ALL, ids=KEYS)
def test_new_numbers_need_no_new_program(entry):
    compilation.new_numbers_need_no_new_program(case(entry))


SWEPT = [entry for entry in ALL if entry.trial]  # conjugate gradients have no parameter


@pytest.mark.parametrize("entry", SWEPT, ids=[entry.key for entry in SWEPT])
def test_a_sweep_is_a_vmap(entry):
    compilation.a_sweep_is_a_vmap(case(entry))
