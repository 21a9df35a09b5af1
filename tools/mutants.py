"""Mutants: a source file with one small mistake in it, for tests to find.

A mutant replaces one expression by another of the same kind: `+` by `-`, `<` by `<=` and by `>=`,
a number by the next one, `average` by `sum`, the branches of a `where` by each other, and it
forgets a field of a state that is replaced. What no test should hold fast gets none: docstrings,
texts, what is raised, annotations, decorators, and fields that are declared in the body of a class.
"""

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SWAPPED_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Mult(),
    ast.Pow: ast.Mult(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
}
_OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[ast.cmpop, ...]] = {
    ast.Lt: (ast.LtE(), ast.GtE()),
    ast.LtE: (ast.Lt(), ast.Gt()),
    ast.Gt: (ast.GtE(), ast.LtE()),
    ast.GtE: (ast.Gt(), ast.Lt()),
    ast.Eq: (ast.NotEq(),),
    ast.NotEq: (ast.Eq(),),
    ast.Is: (ast.IsNot(),),
    ast.IsNot: (ast.Is(),),
    ast.In: (ast.NotIn(),),
    ast.NotIn: (ast.In(),),
}
_PAIRS = [
    ("maximum", "minimum"),
    ("max", "min"),
    ("argmax", "argmin"),
    ("add", "subtract"),
    ("multiply", "divide"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("any", "all"),
    ("floor", "ceil"),
    ("logical_and", "logical_or"),
]
_SWAPPED_NAMES = dict(_PAIRS) | {b: a for a, b in _PAIRS} | {"average": "sum", "mean": "sum"}
_OF_ARRAYS = {"add", "subtract", "multiply", "divide", "zeros", "ones"}  # only as jnp.add, ...
_MAKES_A_CHANGED_COPY = {"_replace", "replace"}


class Mutant(NamedTuple):
    """One mistake: in a file, from one place to another, a text for the one that stands there."""

    path: str  # relative to the package
    line: int
    column: int
    end: tuple[int, int]
    function: int  # the line on which the function around it starts; 0 outside of functions
    original: str
    replacement: str

    @property
    def id(self) -> str:
        """Names the mutant as long as its file does not change."""
        return f"{self.path}:{self.line}:{self.column}: {self.original} -> {self.replacement}"

    def source(self, root: Path) -> str:
        """The file with the mistake in it."""
        lines = (root / self.path).read_bytes().splitlines(keepends=True)
        before = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        last, column = self.end
        after = lines[last - 1][column:] + b"".join(lines[last:])
        return (before + f"({self.replacement})".encode() + after).decode()


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """All mutants of a file."""
    text = (root / path).read_text()
    found = []
    for node, function, changed in _places(ast.parse(text), 0):
        original = " ".join((ast.get_source_segment(text, node) or "").split())
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        for other in changed:
            replacement = ast.unparse(other)
            found.append(
                Mutant(path, node.lineno, node.col_offset, end, function, original, replacement)
            )
    return found


def _places(node: ast.AST, function: int) -> Iterator[tuple[ast.expr, int, list[ast.expr]]]:
    """Every expression that can be changed, the function around it, and what it may become."""
    if isinstance(node, ast.expr) and (changed := list(_changes(node))):
        yield node, function, changed
    for child in _children(node):
        inside = function
        if function == 0 and isinstance(child, ast.FunctionDef):
            inside = min([child.lineno, *[one.lineno for one in child.decorator_list]])
        elif function == 0 and isinstance(child, ast.Lambda):
            inside = child.lineno
        yield from _places(child, inside)


def _children(node: ast.AST) -> list[ast.AST]:
    """The parts of a node in which a mistake would matter."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return []
    if isinstance(node, ast.FunctionDef):
        defaults = [value for value in node.args.kw_defaults if value is not None]
        return [*node.args.defaults, *defaults, *node.body]
    if isinstance(node, ast.Lambda):
        return [node.body]
    if isinstance(node, ast.ClassDef):
        return [part for part in node.body if isinstance(part, ast.FunctionDef | ast.ClassDef)]
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule":
        return list(node.args[:1])  # the rest is its wording and an example
    return list(ast.iter_child_nodes(node))


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression may become."""
    match node:
        case ast.BinOp(op=op) if type(op) in _SWAPPED_OPERATORS and not _is_text(node):
            yield _with(node, op=_SWAPPED_OPERATORS[type(op)])
        case ast.Compare(ops=[op]):
            for other in _OTHER_COMPARISONS[type(op)]:
                yield _with(node, ops=[other])
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.And() if isinstance(op, ast.Or) else ast.Or())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield _with(node, body=node.orelse, orelse=node.body)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Call():
            yield from _changed_calls(node)


def _changed_calls(call: ast.Call) -> Iterator[ast.expr]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name == "sum":
        axes = ast.Constant | ast.UnaryOp | ast.Tuple
        along_an_axis = not call.args or isinstance(call.args[0], axes)
        yield _renamed(call, "mean" if along_an_axis else "average")
    elif name in _SWAPPED_NAMES and (name not in _OF_ARRAYS or _is_numpy(call.func)):
        yield _renamed(call, _SWAPPED_NAMES[name])
    elif name == "where" and len(call.args) == 3:
        condition, there, otherwise = call.args
        yield _with(call, args=[condition, otherwise, there])
    elif name in _MAKES_A_CHANGED_COPY:
        for forgotten in call.keywords:
            yield _with(call, keywords=[one for one in call.keywords if one is not forgotten])


def _renamed(call: ast.Call, name: str) -> ast.expr:
    if isinstance(call.func, ast.Attribute):
        return _with(call, func=_with(call.func, attr=name))
    return _with(call, func=ast.Name(name))


def _is_numpy(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) in ("np", "jnp")


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in (node.left, node.right)
    )


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
