"""Clients that are not there are left alone, and a method survives them."""

import pytest

from fedloom.checking import participation
from laws.trials import IN_TURN, case


@pytest.mark.parametrize("entry", IN_TURN)
def test_absent_clients_keep_their_state_and_count_for_nothing(entry):
    participation.spares_the_absent(case(entry))
