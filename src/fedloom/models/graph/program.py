"""A network as data: which operations it takes, one after the other, on which arrays.

    row        shape and type of one row, as PyTorch has it
    input      what the rows are called
    inputs     what the arrays are called: {"p_weight": "weight", ...}; tied weights are one array
    trained    the arrays that are trained; all others never change
    aliases    other names that PyTorch has for an array
    norm       what became of batch norms: "group", "frozen", "local", or null where there were none
    nodes      [name, operation, arguments, named arguments]
    output     the node whose value the network returns

An argument is a number, a text, true, false, null, a list of arguments, or one of {"node": name},
{"dtype": name} and {"float": "inf"}. A node refers to nodes before it and to none after it, so that
there are no cycles. A text that is anything else is refused.
"""

import dataclasses
import inspect
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.models.graph.operations import OPERATIONS

FORMAT = 1
NORMS = ("group", "frozen", "local")  # what may become of batch norms
DTYPES = ("float", "int", "bool")  # how wide they are is the run's choice
MOST_NODES = 50_000
LONGEST_TEXT = 1 << 25  # characters of a program
LARGEST_NUMBER = 2**31 - 1  # of a whole number, such as a length
_LONGEST_NAME = 300
_DEEPEST = 4  # lists in lists
_FLOATS = ("inf", "-inf", "nan")
_KEYS = {
    *("format", "row", "input", "inputs", "trained", "aliases", "norm", "nodes", "output"),
}


class Ref(NamedTuple):
    """The value of another node."""

    node: str


class Dtype(NamedTuple):
    """A type of numbers, at the precision of the run."""

    name: str


class Node(NamedTuple):
    """One operation."""

    name: str
    operation: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A checked program. Equal texts are equal programs."""

    text: str  # canonical JSON
    row: tuple[int, ...] = dataclasses.field(compare=False)
    dtype: str = dataclasses.field(compare=False)
    input: str = dataclasses.field(compare=False)
    inputs: tuple[tuple[str, str], ...] = dataclasses.field(compare=False)
    trained: tuple[str, ...] = dataclasses.field(compare=False)
    aliases: tuple[tuple[str, str], ...] = dataclasses.field(compare=False)
    norm: str | None = dataclasses.field(compare=False)
    nodes: tuple[Node, ...] = dataclasses.field(compare=False)
    output: str = dataclasses.field(compare=False)

    def __repr__(self) -> str:
        return f"Program({len(self.nodes)} operations)"

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of all arrays."""
        return tuple(dict.fromkeys(name for _, name in self.inputs))


def canonical(parts: Mapping[str, Any]) -> str:
    """The one text of a program."""
    return json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parsed(text: str) -> Program:
    """The program that a text is; DataError says what is wrong with it."""
    if len(text) > LONGEST_TEXT:
        raise DataError(f"the graph must be at most {LONGEST_TEXT} characters; got {len(text)}.")
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the graph is not JSON: {error}. Import the module again.") from error
    if not isinstance(parts, dict) or parts.keys() != _KEYS:
        found = sorted(parts) if isinstance(parts, dict) else type(parts).__name__
        raise DataError(f"a graph must have the keys {sorted(_KEYS)}; got {found}.")
    if parts["format"] != FORMAT:
        raise DataError(
            f"the graph must be of format {FORMAT}; got {parts['format']!r}. "
            f"Import the module again, with this version."
        )
    row = _is(parts["row"], dict, "row")
    shape = _list(row.get("shape"), "row.shape")
    for size in shape:
        _must(type(size) is int and 1 <= size <= LARGEST_NUMBER, "row.shape", size)
    _must(row.keys() == {"shape", "dtype"} and row["dtype"] in DTYPES, "row", row)
    _must(parts["norm"] in (None, *NORMS), "norm", parts["norm"])
    first, inputs = _name(parts["input"]), _names(parts["inputs"], "inputs")
    trained = tuple(map(_name, _list(parts["trained"], "trained")))
    arrays = {name for _, name in inputs}
    _must(bool(trained) and len(set(trained)) == len(trained), "trained", trained)
    for name in trained:
        _must(name in arrays, "trained", name)
    aliases = _names(parts["aliases"], "aliases")
    for _, name in aliases:
        _must(name in arrays, "aliases", name)
    nodes = _nodes(parts["nodes"], {first, *(node for node, _ in inputs)})
    known = {node.name for node in nodes}
    _must(isinstance(parts["output"], str) and parts["output"] in known, "output", parts["output"])
    return Program(
        canonical(parts), tuple(shape), row["dtype"], first, inputs, trained, aliases,
        parts["norm"], nodes, parts["output"],
    )  # fmt: skip


def _nodes(given: Any, known: set[str]) -> tuple[Node, ...]:
    entries = _list(given, "nodes")
    if not 1 <= len(entries) <= MOST_NODES:
        raise DataError(f"a graph must have 1 to {MOST_NODES} nodes; got {len(entries)}.")
    nodes = []
    for entry in entries:
        _must(isinstance(entry, list) and len(entry) == 4, "a node", entry)
        name = _name(entry[0])
        operation, args, kwargs = entry[1:]
        _must(name not in known, "the name of a node, which must be new,", name)
        signature = signature_of(operation, f"node {name!r}")
        _must(isinstance(kwargs, dict), "named arguments", kwargs)
        where = f"an argument of {name} ({operation})"
        node = Node(
            name,
            operation,
            tuple(_value(value, known, where, 0) for value in _list(args, where)),
            tuple((_name(key), _value(value, known, where, 0)) for key, value in kwargs.items()),
        )
        try:
            signature.bind(*node.args, **dict(node.kwargs))
        except TypeError as error:
            raise DataError(
                f"node {name!r}: {operation} is given other arguments: {error}."
            ) from error
        known.add(name)
        nodes.append(node)
    return tuple(nodes)


def signature_of(operation: Any, where: str) -> inspect.Signature:
    """The parameters of an operation, if there is one of this name."""
    if not isinstance(operation, str) or operation not in OPERATIONS:
        shown = str(operation)[:_LONGEST_NAME]
        raise DataError(
            f"{where}: {shown!r} is not an operation that fedloom knows. "
            f"{closest(shown, OPERATIONS)}"
        )
    return inspect.signature(OPERATIONS[operation])


def _value(value: Any, known: set[str], where: str, depth: int) -> Any:
    """An argument, with the nodes that it refers to looked up."""
    if depth > _DEEPEST:
        raise DataError(f"{where} has lists in more than {_DEEPEST} lists.")
    if isinstance(value, list):
        return tuple(_value(part, known, where, depth + 1) for part in value)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inside),) = value.items()
        if kind == "node" and isinstance(inside, str):
            if inside not in known:
                shown = inside[:_LONGEST_NAME]
                raise DataError(f"{where} refers to {shown!r}, which is no node before it.")
            return Ref(inside)
        if kind == "dtype" and inside in DTYPES:
            return Dtype(inside)
        if kind == "float" and inside in _FLOATS:
            return float(inside)
    plain = value is None or isinstance(value, bool | float)
    plain |= isinstance(value, int) and abs(value) <= LARGEST_NUMBER
    plain |= isinstance(value, str) and len(value) <= _LONGEST_NAME
    _must(plain, where, value)
    return value


def _names(given: Any, what: str) -> tuple[tuple[str, str], ...]:
    return tuple((_name(key), _name(name)) for key, name in _is(given, dict, what).items())


def _name(name: Any) -> str:
    _must(isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME, "a name", name)
    return str(name)


def _list(value: Any, what: str) -> list[Any]:
    return list(_is(value, list, what))


def _is(value: Any, kind: type, what: str) -> Any:
    _must(isinstance(value, kind), what, value)
    return value


def _must(holds: bool, what: str, value: Any) -> None:
    if not holds:
        shown = repr(value)
        raise DataError(f"{what} of a graph cannot be {shown[:_LONGEST_NAME]}.")
