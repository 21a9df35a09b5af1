"""What the encoding of a terminal or a pipe cannot hold is printed in plain characters.

So that no verb ends because of a check mark, where Windows or an old locale have no UTF-8.
"""

import codecs
import sys
import unicodedata

PLAINLY = "fedloom.plain"  # the `errors` of a stream that takes every text
_PLAIN = {
    **{"✓": "+", "✗": "x", "·": ".", "±": "+-", "†": "*", "…": "..."},
    **{"\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'"},  # dashes, quotes
}


def prints_exactly(text: str) -> bool:
    """Whether standard output holds a text as it is."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_of, error.object[error.start : error.end])), error.end


def _of(character: str) -> str:
    """A letter without its accents, a piece of a border, or a question mark."""
    name = unicodedata.name(character, "")
    if name.startswith("BOX DRAWINGS"):
        return {"HORIZONTAL": "-", "VERTICAL": "|"}.get(
            name.partition(" ")[2].split(" ", 2)[2], "+"
        )
    bare = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return _PLAIN.get(character) or bare or "?"


codecs.register_error(PLAINLY, _plainly)
