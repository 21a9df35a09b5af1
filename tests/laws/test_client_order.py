"""Clients have no order: numbering them otherwise changes nothing but rounding."""

import pytest

from fedloom.checking import order
from laws.trials import IN_TURN, case


@pytest.mark.parametrize("entry", IN_TURN)
def test_client_order_is_irrelevant(entry):
    order.is_irrelevant(case(entry))
