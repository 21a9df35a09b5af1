"""One line of the doctor's table."""

from typing import NamedTuple

RIGHT, NOTE, WRONG = "right", "note", "wrong"


class Finding(NamedTuple):
    """What was looked at, what was found, and whether that is right."""

    section: str
    name: str
    found: str
    verdict: str = RIGHT  # or NOTE: worth knowing, and no fault; or WRONG
    advice: str = ""
