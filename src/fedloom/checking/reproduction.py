"""A case as Python code that anybody can run."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedloom import algorithms, models, problems
from fedloom.checking.case import Case
from fedloom.data.parties import Parties
from fedloom.operators import aggregators, compressors

_PUBLIC = {
    "algorithms": algorithms,
    "problems": problems,
    "models": models,
    "compressors": compressors,
    "aggregators": aggregators,
}
_MANY = 600  # numbers; more are not written out


def code(case: Case, law: str, *, own_federation: bool) -> str:
    """A program that checks one law on this case; without `own_federation`, on the usual one."""
    imports: set[str] = set()
    method = expression(case.method, imports)
    arguments = [method]
    lines = []
    if own_federation:
        lines.append(f"problem = {expression(case.trial.problem, imports)}")
        lines.append(_clients(case))
        arguments += ["problem=problem", "clients=clients", f"rounds={case.rounds}"]
        arguments += [f"batch_size={case.batch_size}", f"seed={case.seed}"]
    arguments.append(f"laws=[{law!r}]")
    lines.append(f"print(fl.check({', '.join(arguments)}))")
    needed = ["import numpy as np"] if own_federation else []
    return "\n".join([*needed, "import fedloom as fl", *sorted(imports), "", *lines])


def expression(value: Any, imports: set[str]) -> str:
    """A value as Python; classes that are not fedloom's own are added to the imports."""
    if isinstance(value, tuple):
        inner = ", ".join(expression(entry, imports) for entry in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not dataclasses.is_dataclass(value):
        return repr(value)
    cls = type(value)
    given = [
        f"{field.name}={expression(getattr(value, field.name), imports)}"
        for field in dataclasses.fields(value)
        if not _is_default(field, getattr(value, field.name))
    ]
    return f"{_name(cls, imports)}({', '.join(given)})"


def _is_default(field: dataclasses.Field, value: Any) -> bool:
    return type(field.default) is type(value) and field.default == value


def _name(cls: type, imports: set[str]) -> str:
    for module, namespace in _PUBLIC.items():
        if getattr(namespace, cls.__name__, None) is cls:
            return f"fl.{module}.{cls.__name__}"
    if cls.__module__ != "__main__":
        imports.add(f"from {_module(cls)} import {cls.__qualname__.split('.')[0]}")
    return cls.__name__


def _module(cls: type) -> str:
    """By what a class is imported; one of a file that was executed, by the file's name."""
    module = sys.modules.get(cls.__module__)
    executed = getattr(module, "__spec__", None) is None and getattr(module, "__file__", None)
    return Path(executed).stem if executed else cls.__module__


def _clients(case: Case) -> str:
    clients = case.trial.clients
    arrays = [*clients.features, clients.y] if isinstance(clients, Parties) else list(clients.train)
    if sum(np.size(a) if isinstance(a, np.ndarray) else _MANY + 1 for a in arrays) > _MANY:
        return f"clients = ...  # yours, cut to {case.described()}"
    if isinstance(clients, Parties):
        blocks = "".join(f"        {_array(block)},\n" for block in clients.features)
        return (
            f"clients = fl.data.from_parties(\n    [\n{blocks}    ],\n    {_array(clients.y)},\n)"
        )
    rows = (clients.of(i) for i in range(len(clients)))
    pairs = "".join(f"        ({_array(part.x)}, {_array(part.y)}),\n" for part in rows)
    return f"clients = fl.data.from_arrays(\n    [\n{pairs}    ]\n)"


def _array(array: Any) -> str:
    return f"np.array({np.asarray(array).tolist()!r})"
