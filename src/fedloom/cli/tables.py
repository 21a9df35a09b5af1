"""The tables of a settings file, and the policy of a site: what may stand in each."""

import dataclasses
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple

from fedloom.cli.output import show_table
from fedloom.data.leaf import read_leaf
from fedloom.data.libsvm import read_libsvm
from fedloom.data.tables import read_table
from fedloom.experiments.options import (
    CompareSettings,
    FederationSettings,
    RunSettings,
    SweepSettings,
)
from fedloom.experiments.readers import Option, options_of
from fedloom.federation.policy import Policy
from fedloom.parameters import parameters_of
from fedloom.preparation import PartyFiles, SiteFiles

Row = dict[str, Any]
_required = inspect.Parameter.empty


class Table(NamedTuple):
    """A table of a settings file, or the file of a site's owner."""

    key: str
    about: str
    toml: str  # an example
    cls: type | None = None  # whose parameters are its keys
    keys: tuple[Option, ...] = ()  # its own keys, where it names a thing that has others
    see: str = ""  # which list has what it may name


_DIVISION = (
    Option("scheme", "how rows are divided over clients", _required),
    Option("test_fraction", "part of each client's rows that is held out for testing", 0.0),
    Option("seed", "seed of the division", 0),
    Option(
        "normalise",
        "whether channels of images, or features, get mean 0 and deviation 1 by all training rows",
        False,
    ),
)
_DATA = (
    Option("name", "a dataset of `fedloom list datasets`, with its options", None),
    Option("path", "or a file or folder, with the options of its reader, below", None),
    Option("sites", "or one file a site: a folder, or a pattern such as sites/*.csv", None),
    Option("parties", "or one file a party that has other columns of the same people", None),
)
_METHOD = (
    Option("key", "which method", _required),
    Option("name", "what it is called in tables and pictures; none: its key", None),
)
_SEVERAL = "[[algorithm]] several times to compare methods"

TABLES: dict[str, Table] = {
    table.key: table
    for table in (
        Table("data", "the rows", '[data]\nname = "digits"', keys=_DATA, see="datasets"),
        Table(
            "partition",
            "who holds which rows; sites and parties have theirs already",
            '[partition]\nscheme = "label"\nclients = 10\nclasses_each = 2\ntest_fraction = 0.2',
            keys=_DIVISION,
            see="partitions",
        ),
        Table(
            "problem",
            "what is optimised; a regulariser, a constraint or a model is a table in braces",
            '[problem]\nkind = "logistic"\nregulariser = { kind = "l1", strength = 0.001 }',
            keys=(Option("kind", "which problem", _required),),
            see="problems",
        ),
        Table(
            "algorithm",
            f"by which method; {_SEVERAL}",
            '[algorithm]\nkey = "scaffold"\nlr = 0.5',
            keys=_METHOD,
            see="algorithms",
        ),
        Table(
            "wrapper",
            "what happens between a method and its clients; [[wrapper]] as often as needed",
            '[[wrapper]]\nkind = "unreliable"\ndrop = 0.1',
            keys=(Option("kind", "which wrapper", _required),),
            see="wrappers",
        ),
        Table(
            "run",
            "how long it runs, and what is looked at",
            '[run]\nrounds = 100\nbatch_size = 32\nmetrics = ["accuracy", "loss"]',
            RunSettings,
        ),
        Table(
            "compare",
            "for `fedloom compare`: seeds, metric, target",
            "[compare]\nseeds = 3",
            CompareSettings,
        ),
        Table(
            "sweep",
            "for `fedloom sweep`: how values are searched; [sweep.over] names them by field",
            '[sweep]\nsearch = "grid"\n\n[sweep.over]\nlr = [0.01, 0.1, 1.0]',
            SweepSettings,
        ),
        Table(
            "federation",
            "for `fedloom submit`: how a run over real sites is led",
            "[federation]\nmin_sites = 3\nsecure_aggregation = true",
            FederationSettings,
        ),
        Table(
            "policy",
            "what a site allows: `policy.toml` in its kit, which its owner writes",
            'methods = ["fedavg"]\nproblems = ["logistic"]\nfeatures = ["age", "pressure"]\n'
            'labels = { ill = ["no", "yes"] }\nmin_sites = 3',
            Policy,
        ),
    )
}


def describe(table: Table) -> dict[str, Any]:
    """All that is known of a table, as plain values."""
    rows = [option_row(key) for key in table.keys]
    if table.cls is not None:
        rows += parameter_rows(table.cls)
    described: dict[str, Any] = {
        "key": table.key,
        "about": table.about,
        "parameters": rows,
        "toml": table.toml,
    }
    if table.key == "data":
        described["more"] = {
            "of a table, path = *.csv or *.parquet": _options(read_table),
            "of a LIBSVM file, path = *.svm, *.libsvm or *.txt": _options(read_libsvm),
            "of a folder with LEAF's JSON": _options(read_leaf),
            "with sites": parameter_rows(SiteFiles),
            "with parties": parameter_rows(PartyFiles),
        }
    return described | ({"see": f"fedloom list {table.see}"} if table.see else {})


def show(described: dict[str, Any]) -> None:
    """Print what is known of a table."""
    print(f"{described['key']}: {described['about']}\n")
    show_table(described["parameters"], title="Keys")
    for title, rows in described.get("more", {}).items():
        show_table(rows, title=f"Keys {title}")
    if "see" in described:
        print(f"\n`{described['see']}` shows what may be named; `fedloom explain KEY` what else it")
        print("takes, which stands in the same table.")
    print(f"\nAn example\n\n{textwrap.indent(described['toml'], '    ')}")


def parameter_rows(cls: type) -> list[Row]:
    """The parameters of a class, for a table."""
    return [
        {
            "name": parameter.name,
            "rule": parameter.rule,
            "default": _default(parameter.default),
            "meaning": parameter.doc,
        }
        for parameter in parameters_of(cls)
    ]


def option_row(option: Option) -> Row:
    """An option of a reader or of a table, for a table."""
    default = dataclasses.MISSING if option.required else option.default
    return {"name": option.name, "default": _default(default), "meaning": option.doc}


def _options(reader: Any) -> list[Row]:
    options: Iterable[Option] = options_of(reader)[1:]  # behind the path
    return [option_row(option) for option in options]


def _default(value: object) -> str:
    """As a settings file says it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return "required" if value is dataclasses.MISSING else str(value)
