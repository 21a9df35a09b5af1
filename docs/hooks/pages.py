"""Pages that the catalogue writes: one for each method, their index, and the table of needs.

MkDocs calls the functions named `on_...`. A method that is added to the catalogue appears here, in
the navigation and in the table of needs without further work.
"""

import sys
import tomllib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from fedloom import algorithms  # noqa: E402
from fedloom.algorithms.catalogue import CATALOGUE  # noqa: E402
from fedloom.cli import reproduce  # noqa: E402
from fedloom.cli.explain import describe  # noqa: E402
from fedloom.cli.listing import first_line  # noqa: E402
from fedloom.experiments import building, registries  # noqa: E402

FAMILIES = {
    family: list(entries)
    for family, entries in groupby(CATALOGUE.values(), lambda entry: entry.family)
}
REFERENCE = "running result protocol oracles cohorts local operators problems models data".split()
REFERENCE += ["preparation", "deploy"]


def on_config(config: Any) -> Any:
    """The order of the pages."""
    reproductions = sorted((ROOT / "docs" / "reproductions").glob("*.md"))
    config.nav = [
        {"Home": "index.md"},
        {"Guide": "guide.md"},
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
            {path.stem.capitalize(): path.name}
            for path in sorted((ROOT / "docs").glob("*.md"))
            if path.stem
            not in ("index", "guide", "choosing", "writing-a-method", "checking", "verification")
        ),
        {"Reference": ["reference/index.md", *(f"reference/{name}.md" for name in REFERENCE)]},
        {"Verification": ["verification.md", {"Mutation testing": "verification/mutation.md"}]},
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
    """Put the table of needs where a page asks for it."""
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
    shown = ", ".join(f"{name}={python(value)}" for name, value in entry.trial.items())
    parameters = [row | {"name": f"`{row['name']}`"} for row in known["parameters"]]
    return "\n\n".join(
        [
            f"# {entry.name}",
            summary[0].upper() + summary[1:],
            f"`{entry.key}`, family *{entry.family}*. {entry.paper}.",
            fence("text", entry.solves),
            "## Use",
            fence("toml", settings_of(entry)),
            fence("python", f"method = fl.algorithms.{entry.name}({shown})"),
            "## Parameters",
            table(parameters),
            "## Messages of a round",
            f"For 10 clients and {'s' if entry.kind == 'vertical' else 'd'} = 100: 4-byte numbers "
            f"to and from each client asked.",
            table(known["messages"]),
            "## Listing, and what differs from the paper",
            fence("text", listing),
        ]
    )


def settings_of(entry: Any) -> str:
    """The method of the laws' trial as a table of a settings file."""
    described = building.describe(entry.example(), registries.ALGORITHMS, tag="key")
    shown = {"key": entry.key} | {name: described[name] for name in entry.trial}
    lines = [f"{name} = {toml(value)}" for name, value in shown.items() if value is not None]
    return "\n".join(["[algorithm]", *lines])


def python(value: Any) -> str:
    """A value in a program that has imported fedloom as fl."""
    public = type(value).__name__ in algorithms.__all__
    return f"fl.algorithms.{value!r}" if public else repr(value)


def toml(value: Any) -> str:
    """A value in a settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def reproductions_page() -> str:
    """The experiments that come with fedloom, and the pages about them."""
    rows = [
        {"command": f"`fedloom reproduce {name}`", "what it repeats": reproduce.about(path)}
        for name, path in reproduce.available().items()
    ]
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
