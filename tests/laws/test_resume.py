"""A run that stops and goes on ends with the same bits as one that never stopped."""

import pytest

from fedloom.checking import resuming
from laws.trials import IN_TURN, case


@pytest.mark.parametrize("entry", IN_TURN)
def test_resume_is_exact(entry):
    resuming.is_exact(case(entry))
