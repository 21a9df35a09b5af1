"""The report: one HTML page that holds its data and its script, and opens without a network.

Text is escaped by the template engine, and the page's own policy forbids every script but the two
that it comes with, and every connection.
"""

import base64
import gzip
import hashlib
from collections.abc import Iterable
from datetime import datetime
from importlib import resources
from pathlib import Path

from fedloom import version
from fedloom.files import write_text
from fedloom.pictures.curves import COLOURS
from fedloom.reports.reading import Study, read
from fedloom.reports.sections import sections
from fedloom.reports.summary import summarise


def report(folders: Iterable[str | Path], path: str | Path, *, title: str = "") -> None:
    """Write a page about run folders and comparison folders."""
    write_text(Path(path), render(read(folders), title=title), shared=True)


def render(studies: list[Study], *, title: str = "") -> str:
    """The page about some studies."""
    from jinja2 import Environment, StrictUndefined

    script = _asset("page.js")
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(_asset("page.html"))
    parts = [(study, summarise(study), sections(study)) for study in studies]
    return template.render(
        title=title or (studies[0].title if len(studies) == 1 else f"{len(studies)} studies"),
        studies=parts,
        data={
            "pictures": [data for _, _, made in parts for _, data in made],
            "colours": COLOURS,
        },
        versions=_versions(studies),
        made=f"{datetime.now():%Y-%m-%d %H:%M}",
        version=version.__version__,
        style=_asset("page.css"),
        script=script,
        # A browser runs an inline script only if the policy names its hash.
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        plotly=_plotly(),
    )


def _asset(name: str) -> str:
    return (resources.files("fedloom.reports") / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """The drawing library: 4.8 MB, of which compression leaves 2."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _versions(studies: list[Study]) -> str:
    known = {
        f"{name} {version}"
        for study in studies
        for run in study.runs
        for name, version in run.about.get("versions", {}).items()
    }
    return ", ".join(sorted(known))
