"""Formulas of docstrings, which are plain text in a terminal, as MathML on the site.

A listing keeps its lines and columns; what is a formula in it becomes MathML when the site is
built, so that a page needs no script. Words stay words: what the field calls by a name (`sum`,
`prox`, `lambda`) and single letters with indices are mathematics, other words are prose.
"""

import html
import re

from latex2mathml.converter import convert

_GREEK = "alpha beta gamma delta eta eps lambda mu rho sigma tau theta kappa nu omega".split()
_NAMED = "prox grad sign clip diag mean softmax argmin argmax conv proj sqrt".split()
_BIG = {"sum": r"\sum", "max": r"\max", "min": r"\min", "log": r"\log", "exp": r"\exp"}
_SIGNS = {"<-": r"\leftarrow ", "<=": r"\le ", ">=": r"\ge ", "->": r"\to ", "...": r"\dots "}
_SIGNS |= {"..": r"\dots ", "||": r"\| ", "*": r"\cdot ", "~": r"\approx ", "{": r"\{", "}": r"\}"}
_SIGNS |= {"'": "'", "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_", "^": r"\hat{}"}
_MARKS = {"h": r"\hat", "t": r"\tilde"}  # as in zh, the half step from z
_LETTERS = {"lp": r"\lambda_p", "Lm": "L_m", "et": r"\tilde{\eta}", "lam": r"\lambda"}
_LETTERS |= {"KD": r"\mathrm{KD}", "KL": r"\mathrm{KL}"}
_SYMBOL = re.compile(r"[A-Za-z]|[uvwxyz][ht]")
_TOKEN = re.compile(
    r"(?P<space> +)|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<word>[A-Za-z]+(?:_[A-Za-z]{2,})*(?:'s\b)?)"
    r"|(?P<script>[_^](?:\{[^{}]*\}|\([^()]*\)|-?\w+))"
    r"|(?P<sign><-|<=|>=|->|\.\.\.?|\|\||.)"
)
_SPACE = r"\, "
_CHUNK = re.compile(r"(  +)")  # columns of a listing stand apart by two spaces or more


def listing(text: str, parameters: set[str]) -> str:
    """A docstring's listing as HTML: indented blocks are typeset, paragraphs are left."""
    parts, block = [], []

    def close() -> None:
        if block:
            lines = "\n".join(line(entry, parameters) for entry in block)
            parts.append(f'<pre class="listing">{lines}</pre>')
            block.clear()

    paragraph: list[str] = []
    for entry in [*text.splitlines(), ""]:
        if entry.startswith("    "):
            block.append(entry[4:])
            continue
        if entry:
            close()
            paragraph.append(entry)
            continue
        if block:
            close()
        if paragraph:
            parts.append(_paragraph(paragraph, parameters))
            paragraph = []
    return "\n\n".join(parts)


def _paragraph(lines: list[str], parameters: set[str]) -> str:
    """Prose as it is; a table of the paper's symbols as a table."""
    if re.match(r"Paper\s{2,}here", lines[0]):
        cells = [re.split(r"\s{2,}", entry.strip()) for entry in lines]
        rows = [f"| {' | '.join(cells[0])} |", "|" + " --- |" * len(cells[0])]
        for row in cells[1:]:
            shown = [
                line(cell, parameters) if place % 2 == 0 else f"`{cell}`"
                for place, cell in enumerate(row)
            ]
            shown += [""] * (len(cells[0]) - len(row))
            rows.append(f"| {' | '.join(entry.replace('|', '&#124;') for entry in shown)} |")
        return "\n".join(rows)
    return html.escape("\n".join(lines), quote=False)


def line(text: str, parameters: set[str]) -> str:
    """A line of a listing, with its columns where they are."""
    return "".join(
        part if part.isspace() else _chunk(part, parameters) for part in _CHUNK.split(text) if part
    )


def _chunk(text: str, parameters: set[str]) -> str:
    """Prose and formulas in turns."""
    shown, formula = [], []

    def close() -> None:
        apart = bool(formula) and formula[-1] == _SPACE
        source = "".join(formula[:-1] if apart else formula).strip()
        if source:
            shown.append(_mathml(source))
        shown.extend([" "] * apart)
        formula.clear()

    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token.group()
        indexed = text[token.end() :].startswith("_")  # a_i is a weight, and "a" an article
        if kind == "word" and not indexed and not _is_mathematics(value, parameters):
            close()
            shown.append(html.escape(value))
        elif kind in ("space", "sign") and not formula and value in " ,;:.":
            shown.append(value)
        else:
            formula.append(_latex(kind or "", value, parameters))
    close()
    return "".join(shown)


def _is_mathematics(word: str, parameters: set[str]) -> bool:
    if word == "a":
        return False
    names = {*_GREEK, *_NAMED, *_BIG, *_LETTERS, *parameters}
    head = word.partition("_")[0]  # of P_simplex and max_lambda
    return word in names or head in names or bool(_SYMBOL.fullmatch(head))


def _latex(kind: str, value: str, parameters: set[str]) -> str:
    if kind == "word":
        if value in parameters and value not in _GREEK:
            return rf"\mathtt{{{value.replace('_', chr(92) + '_')}}}"
        head, _, index = value.partition("_")
        if index == "bar":
            return rf"\bar{{{head}}}"
        if index:
            return f"{_latex('word', head, parameters)}_{{{''.join(_inner(index, parameters))}}}"
        if value in _LETTERS:
            return _LETTERS[value]
        if value in _GREEK:
            return r"\epsilon " if value == "eps" else rf"\{value} "
        if value in _BIG:
            return f"{_BIG[value]} "
        if value in _NAMED:
            return rf"\operatorname{{{value}}}"
        if len(value) == 2 and value[1] in _MARKS and value[0] in "uvwxyz":
            return f"{_MARKS[value[1]]}{{{value[0]}}}"
        if value == "in":
            return r"\in "
        return value if _SYMBOL.fullmatch(value) else rf"\text{{{value}}}"
    if kind == "script":
        inner = value[1:].strip("{}")
        if value[1:2] == "(":
            inner = value[2:-1]
        return f"{value[0]}{{{''.join(_inner(inner, parameters))}}}"
    if kind == "space":
        return _SPACE
    return _SIGNS.get(value, value)


def _inner(text: str, parameters: set[str]) -> list[str]:
    return [
        _latex(token.lastgroup or "", token.group(), parameters) for token in _TOKEN.finditer(text)
    ]


def _mathml(source: str) -> str:
    try:
        return convert(source)
    except Exception:  # what the converter cannot read is shown as it stands
        return f"<code>{html.escape(source)}</code>"
