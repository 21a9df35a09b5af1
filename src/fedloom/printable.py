"""Words of others on a screen: names of columns, classes and sites, and what a server says."""


def printable(text: str) -> str:
    """The text with a space for every character that could drive a terminal; lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
