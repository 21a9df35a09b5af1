"""Further rules for fields: texts, patterns, numbers of either sign."""

import math
import re

from fedloom.parameters import Rule, instance_of

number = Rule(
    lambda v: isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v),
    "a finite number",
    0.9,
    {"type": "number"},
)


def text(example: str) -> Rule:
    """Texts in which something stands."""
    schema = {"type": "string", "minLength": 1}
    return Rule(lambda v: isinstance(v, str) and bool(v.strip()), "a text", example, schema)


def _compiles(value: object) -> bool:
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except re.error:
        return False


def pattern(example: str) -> Rule:
    """Regular expressions for names of arrays, as in `re.search`."""
    return Rule(_compiles, "a regular expression", example, {"type": "string"})


title = instance_of(str)._replace(text="a text", example="Two methods", schema={"type": "string"})
