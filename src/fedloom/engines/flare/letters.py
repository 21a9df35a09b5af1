"""Letters as they go over the network: small facts as JSON, the body as bytes."""

from typing import Any

from fedloom.engines.hub import Letter

Facts = dict[str, Any]


def letter_from(facts: Facts, body: bytes) -> Letter:
    """A letter as it comes over the network."""
    after = facts.pop("after")
    return Letter(body=body, after=None if after is None else tuple(after), **facts)


def letter_facts(letter: Letter) -> Facts:
    """All of a letter but its body."""
    facts = letter._asdict()
    del facts["body"]
    return facts
