"""The laws, by name: what `fl.check` tries and what `tests/laws` holds the catalogue to.

A law is a function of a case. It returns what it looked at, or raises `BrokenLawError` with the
numbers, or `InapplicableError` with the reason.
"""

from collections.abc import Callable
from typing import NamedTuple

from fedloom.checking import (
    compilation,
    contract,
    engines,
    order,
    participation,
    randomness,
    resuming,
    secrecy,
)
from fedloom.checking.case import Case


class Law(NamedTuple):
    """What is promised, and how it is tried."""

    title: str
    holds: Callable[[Case], str]
    first: bool = False  # whether the others mean nothing where this one is broken
    of_code: bool = False  # whether it is about the code alone, whatever the federation


LAWS: dict[str, Law] = {
    "contract": Law("its rounds can be played", contract.can_be_played, first=True, of_code=True),
    "purity": Law("its code is always one program", randomness.is_pure, first=True, of_code=True),
    "seeds": Law("the seed decides what is drawn", randomness.follows_seeds),
    "engines": Law("the simulator and the wire engine agree", engines.agree),
    "bytes": Law("the bytes that are counted are sent", engines.bytes_are_true),
    "resume": Law("a resumed run ends with the same bits", resuming.is_exact),
    "absence": Law("who is absent is left alone", participation.spares_the_absent),
    "numbers": Law(
        "new numbers need no new program",
        compilation.new_numbers_need_no_new_program,
        of_code=True,
    ),
    "sweeps": Law("a sweep is one mapped program", compilation.a_sweep_is_a_vmap),
    "order": Law("the order of clients is irrelevant", order.is_irrelevant),
    "secrecy": Law("secure sums apply", secrecy.sums_suffice),
}
