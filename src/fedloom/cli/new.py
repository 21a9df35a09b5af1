"""`fedloom new`: a first settings file, method or federation, by a few questions or flags."""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.algorithms.catalogue import entry
from fedloom.errors import ParameterError
from fedloom.experiments import beginnings, settings, toml
from fedloom.experiments.beginnings import COMPARED, Rows
from fedloom.experiments.locations import Location
from fedloom.files import free, write_text
from fedloom.hints import closest
from fedloom.rounds.given import check_fit

_KINDS = ("run", "compare", "sweep", "method", "federation")
_PROJECT = """\
# Who takes part. `fedloom provision project.toml --out kits` makes a kit for each of them;
# docs/federation.md explains the next steps.
name = "{name}"
organisation = "example"
sites = {sites}

# Where sites and people reach the server; its port must be open there.
[server]
host = "localhost"
port = 8002

# lead: may submit runs; member: may look on
[people]
"lead@example.org" = "lead"

# What each site's kit proposes to its owner, who may change it: `fedloom explain policy`.
[policy]
methods = ["scaffold"]
problems = ["logistic"]
features = {features}
labels = {labels}
min_sites = {least}
"""
_SUBMITTED = """\
# A run over the sites: `fedloom submit run.toml --kit kits/lead@example.org`.
# Each site has its own rows, by `fedloom join kits/SITE --data FILE`.
[data]
sites = "*"            # raw tables, prepared over the network from counts and sums
label = {label}
test_fraction = 0.2

[problem]
kind = "logistic"
intercept = true
l2 = 1e-4

[algorithm]
key = "scaffold"
lr = 0.1
local_steps = 10

[run]
rounds = 50
batch_size = 32

# Who takes part, and what happens if sites are lost: `fedloom explain federation`.
[federation]
min_sites = {least}
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Writes a commented file that can be run. On a terminal, what no flag says is asked."
    )
    kinds = ", ".join(_KINDS)
    parser.add_argument("kind", nargs="?", choices=_KINDS, metavar="KIND", help=kinds)
    parser.add_argument("file", nargs="?", type=Path, metavar="PATH", help="what to write")
    parser.add_argument("--data", metavar="NAME", help="a dataset of `fedloom list datasets`")
    parser.add_argument(
        "--sites",
        metavar="PATTERN",
        help='one file a site, such as "sites/*.csv"; of a federation the names, "berlin,lyon"',
    )
    parser.add_argument("--parties", metavar="PATTERN", help="one file a party")
    parser.add_argument("--id", metavar="COLUMN", help="who a row is about, with --parties")
    parser.add_argument("--label", metavar="COLUMN", help="what is predicted")
    parser.add_argument("--family", choices=tuple(COMPARED), help="what is needed; see choosing.md")
    parser.add_argument(
        "--method", action="append", metavar="KEY", help="a method; may be repeated to compare"
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    if arguments.kind is None:
        arguments.kind = _ask(f"what for: {', '.join(_KINDS)}", "run", known=_KINDS)
    made = {"method": _method, "federation": _federation}.get(arguments.kind, _settings)
    made(arguments)
    return 0


def _settings(arguments: argparse.Namespace) -> None:
    verb = arguments.kind
    path = free(arguments.file or Path(f"{verb}.toml"))
    source = _source(arguments)
    methods = _methods(arguments, verb)
    family = beginnings.family_of(methods)
    if "pattern" in source:
        rows = beginnings.of_files(source["pattern"], source["label"], source.get("id"))
    else:
        rows = beginnings.of_name(source["name"], family)
    _check_number(verb, methods, rows)
    text = beginnings.settings_file(verb, rows, methods, path.name)
    chosen = settings.parse(tomllib.loads(text), Location(str(path), text))
    for method in chosen.algorithms.values():
        check_fit(method, chosen.problem)
    write_text(path, text, shared=True)
    print(f"wrote {path}; `fedloom {verb} {path}` runs it")


def _source(arguments: argparse.Namespace) -> dict[str, str]:
    """Where the rows are, by the flags or by questions."""
    given = [n for n in ("data", "sites", "parties") if getattr(arguments, n) is not None]
    if len(given) > 1:
        flags = " and ".join(f"--{name}" for name in given)
        raise ParameterError(f"new: {flags} exclude each other. Keep one.")
    if not given:
        said = _ask("which data: a name of `fedloom list datasets`, or files of sites", "digits")
        files = any(sign in said for sign in "*/\\") or Path(said).exists()
        setattr(arguments, "sites" if files else "data", said)
    if arguments.data is not None:
        return {"name": arguments.data}
    if arguments.label is None:
        arguments.label = _ask("which column is predicted (--label)", None)
    source = {"pattern": arguments.sites or arguments.parties, "label": arguments.label}
    if arguments.parties is not None:
        id = arguments.id or _ask("which column says who a row is about (--id)", None)
        source["id"] = id
    return source


def _methods(arguments: argparse.Namespace, verb: str) -> Sequence[str]:
    if arguments.method:
        return [entry(key).key for key in arguments.method]
    default = "vertical" if arguments.parties else "averaging"
    family = arguments.family or _ask(
        f"which family: {', '.join(COMPARED)}", default, known=tuple(COMPARED)
    )
    return COMPARED[family][-1:] if verb == "run" else COMPARED[family]


def _check_number(verb: str, methods: Sequence[str], rows: Rows) -> None:
    if verb == "run" and len(methods) > 1:
        raise ParameterError(
            f"new: `fedloom run` takes one method; got {', '.join(methods)}. Use `new compare`."
        )
    for key in methods:
        beginnings.problem_for(entry(key).family, rows, [key])


def _method(arguments: argparse.Namespace) -> None:
    path = arguments.file or Path(_ask("which file", "my_method.py"))
    if path.suffix != ".py" or not path.stem.replace("-", "_").isidentifier():
        raise ParameterError(f"new: a method is a file like my_method.py; got {path}. Rename it.")
    write_text(free(path), beginnings.method_file(path), shared=True)
    print(f"wrote {path}; `fedloom check {path}:{beginnings.class_name(path)}` tries it")


def _federation(arguments: argparse.Namespace) -> None:
    folder = arguments.file or Path(_ask("which folder", "federation"))
    sites = arguments.sites or _ask("which sites (--sites)", "berlin,lyon,torino")
    label = arguments.label or _ask("which column is predicted (--label)", "outcome")
    names = [name.strip() for name in sites.split(",") if name.strip()]
    values: dict[str, Any] = {
        "name": folder.name,
        "sites": toml.value(names),
        "features": toml.value(["age", "pressure"]) + "  # the columns that may be learned from",
        "labels": toml.value({label: ["no", "yes"]}) + "  # what may be predicted, and its values",
        "label": toml.value(label),
        "least": min(3, len(names)),
    }
    for name, text in (("project.toml", _PROJECT), ("run.toml", _SUBMITTED)):
        write_text(free(folder / name), text.format(**values), shared=True)
    print(f"wrote {folder}/project.toml and run.toml; edit them, then")
    print(f"    fedloom provision {folder}/project.toml --out {folder}/kits")


def _ask(question: str, default: str | None, known: Sequence[str] = ()) -> str:
    """An answer from the terminal; elsewhere the default, or an error where there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        if default is None:
            raise ParameterError(f"new: say {question}.")
        return default
    while True:
        shown = f" [{default}]" if default else ""
        try:
            answer = input(f"{question}{shown}? ").strip() or default
        except EOFError:  # Ctrl-D
            print()
            raise ParameterError(
                "new: the questions were ended before all were answered; nothing was written. "
                "Answer them, or say what they ask with flags: `fedloom new --help`."
            ) from None
        if answer and (not known or answer in known):
            return answer
        print(closest(answer or "", known) if known else "please answer")
