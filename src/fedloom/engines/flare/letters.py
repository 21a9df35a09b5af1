"""Letters as they go over the network: small facts as JSON, the body as bytes."""

import json
from typing import Any

from fedloom.engines.hub import Letter

Facts = dict[str, Any]


def letter_from(facts: Facts, body: bytes) -> Letter:
    """A letter as it comes over the network."""
    after = facts.pop("after")
    return Letter(body=body, after=None if after is None else tuple(after), **facts)


def packed(facts: Facts, body: bytes) -> bytes:
    """Facts and a body in one piece."""
    text = json.dumps(facts).encode()
    return len(text).to_bytes(4, "big") + text + body


def unpacked(data: bytes) -> tuple[Facts, bytes]:
    """The facts and the body of one piece."""
    size = 4 + int.from_bytes(data[:4], "big")
    return json.loads(data[4:size]), data[size:]


def letter_facts(letter: Letter) -> Facts:
    """All of a letter but its body."""
    facts = letter._asdict()
    del facts["body"]
    return facts
