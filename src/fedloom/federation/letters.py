"""Letters as they are sent over the network: small facts as JSON, the body as bytes."""

import json
from typing import Any

from fedloom.errors import RefusedError, WireError
from fedloom.exchange.hub import Letter

Facts = dict[str, Any]
_LARGEST = 2**31 - 1  # random numbers are drawn from 32 bits of a round and an exchange


def letter_from(facts: Facts, body: bytes, rounds: int) -> Letter:
    """Read a letter that came over the network; refuse anything else.

    Numbers must be numbers: `true`, which equals 1 in Python, would be a different exchange by its
    name, but have the same random numbers.
    """
    after = facts.get("after")
    sound = (
        facts.keys() <= set(Letter._fields) - {"body"}
        and all(isinstance(facts.get(name, ""), str) for name in ("method", "phase"))
        and all(_whole(facts.get(name), _LARGEST) for name in ("round", "exchange", "cohort"))
        and (after is None or (isinstance(after, list) and len(after) == 2))
        and all(_whole(number, _LARGEST) for number in after or ())
        and "method" in facts
        and facts["exchange"] >= 1
    )
    if not sound:
        raise WireError("a letter was due, and something else came. Send letters as the hub does.")
    if facts["round"] > rounds:
        raise RefusedError(
            f"the run has {rounds} rounds, as the settings say; got a letter of round "
            f"{facts['round']}."
        )
    return Letter(**{**facts, "after": None if after is None else tuple(after), "body": body})


def _whole(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


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
