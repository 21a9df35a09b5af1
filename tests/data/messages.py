"""What every error has to say."""

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def raises(kind: type[Exception], *parts: object) -> Iterator[None]:
    """Expect an error whose message has these parts, in order, and ends with a full sentence."""
    with pytest.raises(kind) as caught:
        yield
    message, start = str(caught.value), 0
    for part in map(str, parts):
        start = message.find(part, start)
        assert start >= 0, f"{part!r} is not, or not in its place, in: {message}"
    assert message[-1] in ".?", message
