"""Pages that the catalogue writes: one for each method, their index, and the table of needs.

MkDocs calls the functions named `on_...`. A method that is added to the catalogue appears here, in
the navigation and in the table of needs without further work.
"""

import ast
import inspect
import sys
import tomllib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(Path(__file__).parent))

import typeset  # noqa: E402

from fedloom.algorithms.catalogue import CATALOGUE  # noqa: E402
from fedloom.checking.reproduction import expression  # noqa: E402
from fedloom.cli import messages  # noqa: E402
from fedloom.cli.explain import describe  # noqa: E402
from fedloom.cli.listing import LISTS, first_line  # noqa: E402
from fedloom.cli.tables import TABLES  # noqa: E402
from fedloom.cli.tables import describe as describe_table  # noqa: E402
from fedloom.experiments import building, papers, samples  # noqa: E402
from fedloom.experiments.locations import Location  # noqa: E402

FAMILIES = {
    family: list(entries)
    for family, entries in groupby(CATALOGUE.values(), lambda entry: entry.family)
}
FIRST = "index guide settings choosing writing-a-method checking verification".split()
REFERENCE = "running result protocol oracles cohorts local operators problems models data".split()
REFERENCE += ["preparation", "deploy", "schedules"]


def on_config(config: Any) -> Any:
    """The order of the pages."""
    reproductions = sorted((ROOT / "docs" / "reproductions").glob("*.md"))
    config.nav = [
        {"Home": "index.md"},
        {"Guide": "guide.md"},
        {"Settings files": "settings.md"},
        {"Choosing a method": "choosing.md"},
        {"Write a method": "writing-a-method.md"},
        {"Checking a method": "checking.md"},
        {
            "Methods": [
                "algorithms/index.md",
                *(
                    {family.capitalize(): [{e.name: f"algorithms/{e.key}.md"} for e in entries]}
                    for family, entries in FAMILIES.items()
                ),
            ]
        },
        {
            "Reproductions": [
                "reproductions/index.md",
                *(f"reproductions/{path.name}" for path in reproductions),
            ]
        },
        *(
            {title(path): path.name}  # as other pages call it
            for path in sorted((ROOT / "docs").glob("*.md"))
            if path.stem not in FIRST
        ),
        {"Reference": ["reference/index.md", *(f"reference/{name}.md" for name in REFERENCE)]},
        {
            "Verification": [
                "verification.md",
                {"Mutation testing": "verification/mutation.md"},
                {"PyTorch modules": "verification/torch.md"},
            ]
        },
        {"Changelog": "changelog.md"},
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    made = {f"algorithms/{key}.md": method_page(entry) for key, entry in CATALOGUE.items()}
    made["algorithms/index.md"] = methods_page()
    made["reproductions/index.md"] = reproductions_page()
    made["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table of needs, or all that settings may hold, where a page asks for it."""
    if "<!-- settings -->" in markdown:
        markdown = markdown.replace("<!-- settings -->", settings_tables())
    return markdown.replace("<!-- needs -->", needs_table())


def methods_page() -> str:
    """All methods, by family."""
    parts = ["# Methods", "Each method is one file that reads like the listing in its paper."]
    for family, entries in FAMILIES.items():
        rows = [
            {
                "method": f"[{entry.name}]({entry.key}.md)",
                "key": f"`{entry.key}`",
                "what it is": first_line(entry.cls),
                "paper": entry.paper,
            }
            for entry in entries
        ]
        parts += [f"## {family.capitalize()}", table(rows)]
    return "\n\n".join(parts)


def method_page(entry: Any) -> str:
    """What `fedloom explain` knows, and how to call it."""
    known = describe(entry)
    head, _, listing = known["about"].partition("\n\n")
    summary = head.partition(": ")[2] or head
    parameters = {row["name"] for row in known["parameters"]}
    path = Path(inspect.getfile(entry.cls)).relative_to(ROOT).as_posix()
    return "\n\n".join(
        [
            f"# {entry.name}",
            summary[0].upper() + summary[1:],
            f"`{entry.key}`, family *{entry.family}*. {entry.paper}. [Its source](#source).",
            f'<p class="formula">{typeset.line(entry.solves, parameters)}</p>',
            "## Use",
            f"`fedloom explain {entry.key}` prints this settings file, on small data that come "
            f"with fedloom; `fedloom run` runs it.",
            fence(f'toml title="{entry.key}.toml"', known["toml"].strip()),
            fence("python", python_of(entry)),
            "## Parameters",
            table(coded(known["parameters"])),
            "## Messages of a round",
            sentence(messages.heading(entry)),
            table(known["messages"]),
            "## Listing, and what differs from the paper",
            typeset.listing(listing, parameters),
            "## Source",
            f"The whole method, `{path}`:",
            fence("python", source_of(entry)),
        ]
    )


def python_of(entry: Any) -> str:
    """The same as a program: the method and its problem."""
    whole = samples.method_file(entry.key, entry.cls)
    place = Location(entry.key, "")
    (method,) = building.algorithms(whole["algorithm"], place).values()
    problem = building.problem(whole["problem"], place)
    made = [("method", expression(method, set())), ("problem", expression(problem, set()))]
    options = {**whole["run"]}
    options["batch_size"] = {"full": None}.get(options.get("batch_size"), options.get("batch_size"))
    asked = "".join(f", {name}={value}" for name, value in options.items() if value is not None)
    run = f"result = fl.simulate(method, problem, clients{asked})"
    return "\n".join(["import fedloom as fl", "", *(f"{n} = {v}" for n, v in made), run])


def source_of(entry: Any) -> str:
    """The method's own file, without the docstring that the page shows already."""
    text = Path(inspect.getfile(entry.cls)).read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno :]).strip()


def settings_tables() -> str:
    """What each table of a settings file may hold, and every key with its line."""
    parts = []
    for name, known in TABLES.items():
        described = describe_table(known)
        parts += [f"## {name}", sentence(known.about), fence("toml", known.toml)]
        parts.append(table(coded(described["parameters"])))
        for title, rows in described.get("more", {}).items():
            parts += [f"Keys {title}:", table(coded(rows))]
    for kind, rows in LISTS.items():
        if kind != "tables":
            listed = [
                {
                    "key": method_link(kind, row["key"]),
                    "what it is": row["about"],
                    "in a settings file": f"`{row['in a settings file']}`",
                }
                for row in rows()
            ]
            parts += [f"## {kind.capitalize()}", table(listed)]
    return "\n\n".join(parts)


def method_link(kind: str, key: str) -> str:
    """A key, with a link where it has a page."""
    return f"[`{key}`](algorithms/{key}.md)" if kind == "algorithms" else f"`{key}`"


def coded(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of parameters with their names as code."""
    return [row | {"name": f"`{row['name']}`"} for row in rows]


def sentence(text: str) -> str:
    """A text with a capital letter and a full stop."""
    return text[0].upper() + text[1:] + "."


def reproductions_page() -> str:
    """The experiments that come with fedloom, and the pages about them."""
    rows = [{**row, "name": f"`{row['name']}`"} for row in papers.listed()]
    pages = sorted((ROOT / "docs" / "reproductions").glob("*.md"))
    links = "\n".join(f"- [{title(path)}]({path.name})" for path in pages)
    return f"# Reproductions\n\nWhat the papers show, run again.\n\n{links}\n\n{table(rows)}"


def needs_table() -> str:
    """Which method for which need; methods that are not in the catalogue are left out."""
    needs = tomllib.loads((ROOT / "docs" / "needs.toml").read_text(encoding="utf-8"))["need"]
    rows = []
    for need in needs:
        known = [CATALOGUE[key] for key in need["methods"] if key in CATALOGUE]
        if known:
            links = ", ".join(f"[{entry.name}](algorithms/{entry.key}.md)" for entry in known)
            rows.append({"you need": need["need"], "take": links, "because": need["why"]})
    return table(rows)


def title(path: Path) -> str:
    """The heading of a page."""
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def table(rows: Iterable[dict[str, Any]]) -> str:
    """A table in Markdown."""
    rows = list(rows)
    if not rows:
        return ""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
    for row in rows:
        cells = (str(value).replace("|", "\\|").replace("<", "&lt;") for value in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fence(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"
