"""A picture that a notebook shows by itself and that can be saved."""

import io
from pathlib import Path
from typing import Any

from fedloom.errors import DataError
from fedloom.files import write_file

_DPI = 150


class Picture:
    """A Matplotlib figure, without the global state of pyplot."""

    def __init__(self, figure: Any):
        self.figure = figure

    def save(self, path: str | Path) -> None:
        """Write the picture, as PNG, SVG or PDF by the suffix."""
        path = Path(path)
        kind = path.suffix.removeprefix(".").lower()
        if kind not in ("png", "svg", "pdf"):
            raise DataError(
                f"{path}: a picture must be .png, .svg or .pdf; got {path.suffix!r}. "
                f"Change the suffix."
            )
        write_file(
            path,
            lambda temporary: self.figure.savefig(temporary, format=kind, dpi=_DPI),
            shared=True,
        )

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()
