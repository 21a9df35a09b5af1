"""Words of messages: known names that come close, the extra to install, what may be printed."""

import difflib
import importlib.util
import re
from collections.abc import Collection, Iterable

from fedloom.errors import DataError

_NEAR = 0.7  # how much of two names is the same letters, from which on one may mean the other
_PART = 0.9  # how much one word of a name counts, as "steps" of "local_steps"
_SAID = 0.85  # how much a name counts that is a word of what was given, as "f1" of "f1_wrost"
_AS_NEAR = 0.15  # what is that much farther than the nearest is not meant
_BEGINNING = 3  # letters
_SHORT = 20  # names that can be read in a sentence


def closest(name: object, known: Iterable[str], *, where: str = "") -> str:
    """A sentence with the nearest known names, or with what there is where none is near.

    Args:
        name: What was given.
        known: What could have been given.
        where: A command that shows what is known, for where that is much.
    """
    known = list(known)
    said = str(name).casefold()
    nearness = {other: _nearness(said, other.casefold()) for other in known}
    best = max(nearness.values(), default=0.0)
    least = 1.0 if best == 1 else max(_NEAR, best - _AS_NEAR)
    near = sorted((o for o in known if nearness[o] >= least), key=lambda other: -nearness[other])
    if near:
        return f"Did you mean {' or '.join(map(repr, near[:3]))}?"
    return listed(known, where=where)


def listed(known: Collection[str], *, where: str = "") -> str:
    """A sentence with what there is, or with the command that shows it where that is much."""
    if not known:
        return "There are none."
    if where and len(known) > _SHORT:
        return f"`{where}` shows all {len(known)}."
    shown, more = list(known)[:_SHORT], len(known) - _SHORT
    return f"Use one of {', '.join(map(repr, shown))}{f', or of {more} more' if more > 0 else ''}."


def _nearness(said: str, name: str) -> float:
    """From 0 to 1, where 1 means equal; a word of either may be what is meant."""
    words = max(_alike(said, part) for part in re.split(r"[^a-z0-9]+", name))
    exact = name in re.split(r"[^a-z0-9]+", said)
    return max(_alike(said, name), _PART * words, _SAID * exact)


def _alike(one: str, other: str) -> float:
    """The share of equal letters; near, too, are a letter apart and the beginning of the other."""
    matcher = difflib.SequenceMatcher(None, one, other)
    same = sum(block.size for block in matcher.get_matching_blocks())
    apart = max(len(one), len(other)) - same
    begins = len(one) >= _BEGINNING and other.startswith(one)
    return max(matcher.ratio(), _NEAR if (same and apart <= 1) or begins else 0.0)


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
