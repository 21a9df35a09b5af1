"""Every method, once: what the command line, the documentation and the tests read.

A new method is one entry in its family's folder; the laws in `tests/laws` then hold it to the
common contract.
"""

from fedloom.algorithms import averaging, composite, minimax, personal, robust, vertical
from fedloom.algorithms.entry import MethodEntry
from fedloom.errors import ParameterError
from fedloom.hints import closest

CATALOGUE: dict[str, MethodEntry] = {
    entry.key: entry
    for family in (averaging, composite, minimax, robust, personal, vertical)
    for entry in family.ENTRIES
}


def entry(key: str) -> MethodEntry:
    """Look a method up; an unknown key is an error that names the closest one."""
    if key not in CATALOGUE:
        raise ParameterError(
            f"algorithm must be a key from `fedloom list algorithms`; got {key!r}. "
            f"{closest(key, CATALOGUE, where='fedloom list algorithms')}"
        )
    return CATALOGUE[key]
