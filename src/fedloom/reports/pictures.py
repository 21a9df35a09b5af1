"""Pictures of studies for papers, as PNG and SVG: a file for each metric."""

import re
from collections.abc import Iterator
from pathlib import Path

from fedloom.metrics.chosen import base
from fedloom.pictures import labels
from fedloom.pictures.curves import curves
from fedloom.reports.reading import Study


def draw(studies: list[Study], folder: Path) -> Iterator[Path]:
    """Draw each metric against rounds; yields the files as they are written."""
    for study in studies:
        prefix = f"{_slug(study.title)}-" if len(studies) > 1 else ""
        for metric in labels.metrics(study.columns):
            for suffix in ("png", "svg"):
                path = folder / f"{prefix}{_slug(metric)}.{suffix}"
                log = base(metric) in labels.LOGARITHMIC
                curves(study.methods, path, metrics=(metric,), log=log)
                yield path


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
