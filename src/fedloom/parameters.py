"""Hyper-parameters: frozen dataclasses that are pytrees, with a stated rule for every field.

`@parametrised` makes a class a frozen dataclass and a JAX pytree. Fields annotated `float`, or with
another parametrised class, are leaves: they may be traced, so that a new step size needs no new
compilation and a sweep is a `vmap`. All other fields are static.

`param(rule, doc)` declares a field with its legal values. A broken rule gives one form of message
everywhere: who, which parameter, the rule, the value, and what to try instead.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar, Union, dataclass_transform

from fedloom.errors import ParameterError, UnchangeableError
from fedloom.hints import closest
from fedloom.pytrees import plain, register

T = TypeVar("T")
_MOST = 2**31 - 1  # the largest whole number of 32 bits, with which compiled programs count


class Rule(NamedTuple):
    """What values a parameter may take: a test, the words for it, an example, a JSON Schema."""

    holds: Callable[[Any], bool]  # whether a value is allowed
    text: str  # the rule in words, as in "lr must be a number > 0"
    example: object  # a value that is allowed, which error messages propose
    schema: Mapping[str, Any] = types.MappingProxyType({})  # for editors; {}: anything

    def or_none(self, meaning: str) -> "Rule":
        """The same rule, with None allowed as well.

        Args:
            meaning: What None stands for, such as "everyone".
        """
        text = f"{self.text}, or none ({meaning})"
        return Rule(lambda v: v is None or self.holds(v), text, self.example, self.schema)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> typing.TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


positive = Rule(
    lambda v: _is_number(v) and 0 < v < float("inf"),
    "a number > 0",
    0.1,
    {"type": "number", "exclusiveMinimum": 0},
)
at_least_zero = Rule(
    lambda v: _is_number(v) and 0 <= v < float("inf"),
    "a number >= 0",
    0.0,
    {"type": "number", "minimum": 0},
)
fraction = Rule(
    lambda v: _is_number(v) and 0 <= v <= 1,
    "a number from 0 to 1",
    0.5,
    {"type": "number", "minimum": 0, "maximum": 1},
)
positive_fraction = Rule(
    lambda v: fraction.holds(v) and v > 0,
    "a number above 0 and up to 1",
    0.5,
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
)
below_one = Rule(
    lambda v: fraction.holds(v) and v < 1,
    "a number from 0 to below 1",
    0.9,
    {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
)
per_cent = Rule(
    lambda v: _is_integer(v) and 0 <= v <= 100,
    "a whole number from 0 to 100",
    10,
    {"type": "integer", "minimum": 0, "maximum": 100},
)
flag = Rule(lambda v: isinstance(v, bool), "true or false", True, {"type": "boolean"})
anything = Rule(lambda v: True, "anything", None)


def at_least(low: int) -> Rule:
    """Whole numbers >= `low`, as far as a compiled program counts."""
    text, schema = f"a whole number >= {low}", {"type": "integer", "minimum": low}
    limited = schema | {"maximum": _MOST}
    return Rule(lambda v: _is_integer(v) and low <= v <= _MOST, text, max(low, 10), limited)


def between(low: float, high: float) -> Rule:
    """Numbers > `low` and < `high`."""
    text = f"a number between {low:g} and {high:g}"
    schema = {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}
    return Rule(lambda v: _is_number(v) and low < v < high, text, (low + high) / 2, schema)


def one_of(*texts: str) -> Rule:
    """One of a few texts, such as `one_of("I", "II")`."""
    text = "one of " + ", ".join(map(repr, texts))
    return Rule(lambda v: isinstance(v, str) and v in texts, text, texts[0], {"enum": list(texts)})


def names(*examples: str) -> Rule:
    """Lists of texts, be they empty."""
    return Rule(
        lambda v: isinstance(v, list | tuple) and all(isinstance(name, str) for name in v),
        "a list of names",
        list(examples),
        {"type": "array", "items": {"type": "string"}},
    )


def instance_of(kind: type) -> Rule:
    """Objects of a class, such as `instance_of(fl.compressors.Compressor)`."""
    return Rule(lambda v: isinstance(v, kind), f"a {kind.__name__}", None)


def param(rule: Rule, doc: str, *, default: Any = dataclasses.MISSING, static: bool = False) -> Any:
    """Declare a field of an algorithm, with the rule for its values and its meaning.

    Write `lr: float = param(positive, "step size of the local steps")`.

    Args:
        rule: Which values are allowed.
        doc: What the parameter means, for `fedloom explain` and the pages of the methods.
        default: The value where none is given; without it a value must be given.
        static: Whether a number is never traced, because what is compiled depends on it.
    """
    metadata = {"rule": rule, "doc": doc, "static": static}
    return dataclasses.field(default=default, metadata=metadata)


def unwritten(doc: str, *, compare: bool = False) -> Any:
    """Declare a field that no settings file holds, such as arrays from a file that one names.

    Args:
        doc: What it is.
        compare: Whether objects with another value in it differ; not where other fields tell.
    """
    metadata = {"rule": anything, "doc": doc, "written": False}
    return dataclasses.field(default=None, compare=compare, repr=False, metadata=metadata)


def written(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a parametrised class, or of an object of one, that settings files may hold."""
    return tuple(f for f in dataclasses.fields(cls) if f.metadata.get("written", True))


class Parameter(NamedTuple):
    """A field as the command line and the documentation show it."""

    name: str
    rule: str
    doc: str
    default: object  # dataclasses.MISSING where a value must be given


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The fields of a parametrised class, with their rules in words."""
    return tuple(
        Parameter(f.name, f.metadata["rule"].text, f.metadata["doc"], f.default)
        if f.metadata
        else Parameter(f.name, "anything", "", f.default)
        for f in written(cls)
    )


def check(owner: str, name: str, value: object, rule: Rule) -> None:
    """Raise ParameterError if `value` breaks `rule`."""
    if rule.holds(value):
        return
    hint = f"Try {name} = {rule.example!r}." if rule.example is not None else "Change it."
    if _is_integer(value) and value > _MOST and "a whole number >=" in rule.text:
        hint = f"It must be < 2^31. {hint}"
    error = ParameterError(f"{owner}: {name} must be {rule.text}; got {value!r}. {hint}")
    error.parameter = name
    raise error


def needed(cls: Any, given: Collection[str]) -> list[str]:
    """The parameters that have no default and are not given."""
    fields = dataclasses.fields(cls)
    return [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in given]


def needs(cls: Any, missing: Collection[str]) -> str:
    """All that is missing in one sentence, each with its meaning and its rule."""
    told = []
    for field in dataclasses.fields(cls):
        if field.name in missing:
            said = field.metadata and f": {field.metadata['doc']}, {field.metadata['rule'].text}"
            told.append(f"{field.name}{said or ''}")
    return f"{cls.__name__} needs {'; and '.join(told)}."


def _check_arguments(cls: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise ParameterError where arguments do not fit the fields, for all of them at once."""
    placed = [field.name for field in dataclasses.fields(cls) if not field.kw_only]
    wrong = []
    for name in named:
        if name not in (known := cls.__dataclass_fields__):
            wrong.append(f"{cls.__name__} has no parameter {name!r}. {closest(name, known)}")
        elif name in placed[: len(values)]:
            wrong.append(f"{cls.__name__} is given {name} twice. Leave one of them out.")
    if len(values) > len(placed):
        wrong.append(f"{cls.__name__} takes {len(placed)} parameters; got {len(values)} values.")
    if missing := needed(cls, {*placed[: len(values)], *named}):
        if values and (last := missing[-1]) not in placed:
            named_so = f"pass {last} by name ({last}=...)"
            wrong = [f"{cls.__name__}: {named_so}; values without a name start with {placed[0]}."]
        wrong.append(f"{needs(cls, missing)} Write {cls.__name__}({'=..., '.join(missing)}=...).")
    if wrong:
        raise ParameterError(" ".join(wrong))


def _refuse_change(self: Any, name: str, value: object = None) -> NoReturn:
    kind = type(self).__name__
    raise UnchangeableError(
        f"{kind}.{name} cannot be set: an object of {kind} is a value that never changes, and its "
        f"code runs once, when it is compiled. What changes from round to round belongs to the "
        f"state that `round` and the client methods return; what is chosen beforehand is a field, "
        f"{name}: float = param(rule, meaning). Another value: dataclasses.replace(method, ...)."
    )


def _is_leaf(annotation: object) -> bool:
    """Whether a field with this annotation may be traced."""
    if typing.get_origin(annotation) in (Union, types.UnionType, tuple):
        return any(_is_leaf(option) for option in typing.get_args(annotation))
    return annotation is float or hasattr(annotation, "__parametrised__")


def _post_init(self: Any) -> None:
    for field in dataclasses.fields(self):
        given = getattr(self, field.name)
        value = plain(given)  # np.float32 is no float and np.int64 no int, but they keep the rules
        if isinstance(value, list):
            value = tuple(value)  # static fields must be hashable
        whole = field.name in self.__leaves__ and _is_integer(value)
        kept = float(value) if whole else value  # `lr = 1` in a settings file
        if kept is not given:
            object.__setattr__(self, field.name, kept)
        # Inside a transformation a leaf holds a tracer or an array, which has no value to check.
        if field.metadata and (field.name not in self.__leaves__ or not _is_array(value)):
            check(type(self).__name__, field.name, value, field.metadata["rule"])


def _is_array(value: object) -> bool:
    """Whether it is a number in an array or a tracer, or a tuple of them; np.float64 is a float."""
    if isinstance(value, tuple):
        return any(map(_is_array, value))
    return getattr(value, "shape", None) == () and not isinstance(value, float)


@dataclass_transform(frozen_default=True, field_specifiers=(param, dataclasses.field))
def parametrised(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with checked fields, and a pytree.

    Fields annotated `float`, or with another parametrised class, are leaves; the others are static.
    For options that an algorithm takes as an object; the algorithm itself has `@algorithm`.
    """
    own_post_init = getattr(cls, "__post_init__", None)  # also that of a class above

    def post_init(self: Any) -> None:
        _post_init(self)
        if own_post_init is not None:
            own_post_init(self)

    made: Any = cls
    made.__post_init__ = post_init
    made = dataclasses.dataclass(frozen=True)(made)
    plain_init = made.__init__

    @functools.wraps(plain_init, assigned=("__doc__", "__name__", "__qualname__"))
    def init(self: Any, *values: Any, **named: Any) -> None:
        try:
            plain_init(self, *values, **named)
        except TypeError:
            _check_arguments(made, values, named)
            raise

    made.__init__ = init
    made.__setattr__ = made.__delattr__ = _refuse_change
    hints = typing.get_type_hints(made)
    fields = dataclasses.fields(made)
    made.__leaves__ = frozenset(
        f.name for f in fields if _is_leaf(hints[f.name]) and not f.metadata.get("static", False)
    )
    made.__parametrised__ = True
    register(made, [field.name for field in fields if field.name in made.__leaves__])
    return made
