"""What the API reference shows beyond docstrings: the meanings of fields and rules.

mkdocstrings reads the source by Griffe, and Griffe loads this extension. It

- documents a field by its `param(rule, meaning)`, or by the comment behind it;
- documents a rule, such as `positive`, by its text;
- leaves out methods that a base class documents, such as the `losses` of every problem.
"""

import dataclasses
import importlib
from typing import Any

import griffe

from fedloom.parameters import Rule, parameters_of

# The rooms of which something is in the reference; others need not be imported.
ROOMS = {"errors", "protocol", "replies", "parameters", "cohorts", "local", "operators"}
ROOMS |= {"schedules", "optimisers"}
ROOMS |= {"population", "objective", "saddle_objective", "party"}
ROOMS |= {"problems", "models", "data", "deploy", "preparation", "measuring", "experiments"}


class Fields(griffe.Extension):
    """Docstrings for fields and rules; overriding methods are not shown again."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Go through all modules of a package that was loaded."""
        for name in ROOMS & set(pkg.members):
            self.walk(pkg.members[name])

    def walk(self, found: Any) -> None:
        """A module, with those below it, or a class."""
        for member in list(found.members.values()):
            if member.is_alias:
                continue
            if member.is_module:
                self.walk(member)
                continue
            live = getattr(importlib.import_module(found.path), member.name, None)
            if member.is_class:
                document_fields(member, live)
                leave_out_overrides(member, live)
            elif isinstance(live, Rule):
                member.value = None
                describe(member, f"a rule for a field: {live.text}")
            elif member.is_attribute and not member.docstring:
                member.value = None
                describe(member, comment(member))


def document_fields(cls: griffe.Class, live: type) -> None:
    """Give the fields of a class docstrings."""
    declared = {}
    if hasattr(live, "__leaves__"):
        declared = {field.name: field for field in parameters_of(live)}
    for name, attribute in cls.members.items():
        if not attribute.is_attribute or attribute.docstring:
            continue
        if isinstance(attribute.value, griffe.ExprCall):
            attribute.value = None  # `param(...)` and `static(...)` are not values
        if name in declared and declared[name].doc:
            text = f"{declared[name].doc}: {declared[name].rule}"
            if declared[name].default is not dataclasses.MISSING:
                text += f"; by default {declared[name].default!r}"
            describe(attribute, text)
        else:
            describe(attribute, comment(attribute))


def comment(attribute: Any) -> str:
    """The comment behind a field; of one with several lines, behind the first or the last."""
    behind = [line.partition("  # ")[2] for line in attribute.lines]
    return (behind[0] or behind[-1]) if behind else ""


def describe(attribute: Any, text: str) -> None:
    """Make a text a docstring."""
    if text:
        end = "" if text.endswith("?") else "."
        attribute.docstring = griffe.Docstring(text[0].upper() + text[1:] + end, parent=attribute)


def leave_out_overrides(cls: griffe.Class, live: type) -> None:
    """Remove methods whose meaning is told by a base class of fedloom."""
    bases = [base for base in live.__mro__[1:] if base.__module__.startswith("fedloom.")]
    for name in [name for name, member in cls.members.items() if member.is_function]:
        if any(name in vars(base) for base in bases):
            del cls.members[name]
