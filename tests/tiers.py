"""Which cases of a promise every test run tries; `make test-thorough` tries the others.

A case that repeats a promise for one more method, network or number costs a program of its own. In
every run there is one of each kind, and what only a long run shows is left to the thorough one.
"""

from collections.abc import Iterable

import pytest

thorough = pytest.mark.thorough


def in_turn(cases: Iterable[str], some: Iterable[str]) -> list:
    """The cases as parameters of a test, all but some of them for the thorough run."""
    some = set(some)
    cases = list(cases)
    assert some <= set(cases), f"no such cases: {some - set(cases)}"
    return [case if case in some else pytest.param(case, marks=thorough) for case in cases]
