"""Words of messages: known names that come close, the extra to install, what may be printed."""

import difflib
import importlib.util
from collections.abc import Iterable

from fedloom.errors import DataError


def closest(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known names, or with all of them where none is near."""
    known = list(known)
    folded = [other.casefold() for other in known]
    found = difflib.get_close_matches(name.casefold(), dict.fromkeys(folded), n=3, cutoff=0.5)
    near = [known[place] for text in found for place, own in enumerate(folded) if own == text][:3]
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return f"Use one of {', '.join(map(repr, known))}."


def needs(module: str, extra: str) -> None:
    """Raise DataError where a module of an optional extra is not installed."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the package above it is not there
        found = None
    if found is None:
        raise DataError(f"this needs {module}, which is not here. Install fedloom[{extra}].")


def printable(text: str) -> str:
    """Text of others, with a space in place of each character that could control a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
