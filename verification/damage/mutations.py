"""What may happen to a file: by a disk, a transfer, an editor or a hand."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator


def flipped(rng: Rng, data: bytes) -> bytes:
    """One bit is another."""
    changed = bytearray(data)
    if changed:
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwritten(rng: Rng, data: bytes) -> bytes:
    """A few bytes in one place are anything."""
    changed = bytearray(data)
    start, count = int(rng.integers(len(data) + 1)), int(rng.integers(1, 9))
    changed[start : start + count] = rng.bytes(count)
    return bytes(changed)


def cut(rng: Rng, data: bytes) -> bytes:
    """The end is missing."""
    return data[: int(rng.integers(len(data)))] if data else data


def emptied(rng: Rng, data: bytes) -> bytes:
    """Nothing is left."""
    return b""


def extended(rng: Rng, data: bytes) -> bytes:
    """There is more at the end."""
    return data + rng.bytes(int(rng.integers(1, 40)))


def moved(rng: Rng, data: bytes) -> bytes:
    """A block stands where another stood."""
    size = max(1, len(data) // 8)
    start, to = (int(n) for n in rng.integers(0, len(data) + 1, 2))
    return data[:to] + data[start : start + size] + data[to + size :]


def enlarged(rng: Rng, data: bytes) -> bytes:
    """A digit has become a number that fits nowhere."""
    digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return overwritten(rng, data)
    place = digits[rng.integers(len(digits))]
    huge = (b"9" * 30, b"1e999", b"-9223372036854775809", b"4294967296")
    return data[:place] + huge[rng.integers(len(huge))] + data[place + 1 :]


def rewritten(rng: Rng, data: bytes) -> bytes:
    """A value of JSON is dropped or of another kind; other files lose a line."""
    try:
        content = json.loads(data)
    except ValueError:
        lines = data.splitlines(keepends=True)
        if lines:
            del lines[rng.integers(len(lines))]
        return b"".join(lines)
    return json.dumps(changed_value(rng, content), indent=2).encode()


def changed_value(rng: Rng, content: Any) -> Any:
    """The same content with one value gone or replaced, somewhere inside."""
    places = list(_places(content))
    if not places:
        return None
    holder, key = places[rng.integers(len(places))]
    others = (None, "text", [], {}, -1, 1e300, True, [[1], "2"], 10**40)
    choice = int(rng.integers(len(others) + 1))
    if choice == len(others):
        del holder[key]
    else:
        holder[key] = others[choice]
    return content


def _places(content: Any) -> Any:
    keys = content if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _places(content[key])


KINDS: tuple[Callable[[Rng, bytes], bytes], ...] = (
    *(flipped, overwritten, cut, emptied, extended, moved, enlarged, rewritten),
)
