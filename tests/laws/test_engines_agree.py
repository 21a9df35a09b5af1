"""One definition, two engines: the same trajectory to rounding, and the same bytes."""

import pytest

from fedloom.checking import contract, engines
from laws.trials import IN_TURN, case


@pytest.mark.parametrize("entry", IN_TURN)
def test_wire_and_simulator_give_the_same_trajectory(entry):
    engines.agree(case(entry))


@pytest.mark.parametrize("entry", IN_TURN)
def test_the_bytes_that_are_counted_are_sent(entry):
    engines.bytes_are_true(case(entry))


@pytest.mark.parametrize("entry", IN_TURN)
def test_its_rounds_can_be_played(entry):
    contract.can_be_played(case(entry))
