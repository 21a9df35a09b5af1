"""What a run notes of its rows, by which it is told later whether they are the same."""

from collections.abc import Mapping
from typing import Any

from fedloom.data.fingerprints import differ
from fedloom.data.parties import Holders

DIVISION = "division of rows"  # in `about`: who holds which rows, by labels and sizes
FEATURES = "fingerprint of features"  # in `about`: of what the rows hold


def noted(holders: Holders) -> dict[str, Any]:
    """The notes of a run on these clients or parties."""
    return {DIVISION: holders.identity(), FEATURES: holders.fingerprint()}


def changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What is another than it was, in words; None where nothing is known to be.

    Args:
        then: What a run has noted, less what its version of fedloom did not know.
        now: What `noted` says of the rows at hand.
    """
    if DIVISION in then and DIVISION in now and then[DIVISION] != now[DIVISION]:
        return f"another {DIVISION} (labels have changed, or rows belong to other clients)"
    if differ(then.get(FEATURES), now.get(FEATURES)):
        return "other features (values, scales or columns)"
    return None
