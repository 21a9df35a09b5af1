"""One data frame a site, in the place of one file, through the same preparation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedloom.data.clients import Clients
from fedloom.data.frames import as_frame
from fedloom.errors import DataError, ParameterError
from fedloom.hints import closest
from fedloom.preparation.files import SiteFiles
from fedloom.preparation.fitting import prepare

if TYPE_CHECKING:
    import polars as pl

_OF_FILES = ("sites", "label", "test", "separator", "decimal", "encoding")


def from_frames(
    frames: Mapping[str, Any],
    label: str,
    *,
    test: Mapping[str, Any] | None = None,
    **options: Any,
) -> Clients:
    """Clients from one frame of pandas or Polars for each site, prepared like files of sites.

    Args:
        frames: The frames by the names of the sites, all with the same columns.
        label: The column to predict.
        test: Frames of test rows by the names of the sites; a site may have none.
        options: As in `SiteFiles`: test_fraction, features, dates, ignore, categorical, numeric,
            regression, seed.
    """
    if not isinstance(frames, Mapping) or not frames:
        raise DataError(
            f"from_frames: frames must be a mapping from the names of sites to frames; got "
            f"{type(frames).__name__}. Pass {{'north': frame, 'south': other}}."
        )
    for name in frames:
        if not isinstance(name, str) or not name.strip():
            raise DataError(
                f"from_frames: a site's name must be a text that is not empty; got {name!r}. Give "
                f"every site a name, such as 'north'."
            )
    for name in options:
        if name in _OF_FILES or name not in SiteFiles.__dataclass_fields__:
            known = [n for n in SiteFiles.__dataclass_fields__ if n not in _OF_FILES]
            raise ParameterError(
                f"from_frames: there is no option {name!r}. {closest(name, known)}"
            )
    for name in test or ():
        if name not in frames:
            raise DataError(
                f"from_frames: test rows must be of a site; there is no site {name!r}. "
                f"{closest(name, frames)}"
            )
    files = SiteFiles("frames", label, **options)
    held_out = {name: _frame(name, table) for name, table in (test or {}).items()}
    tables = [
        files.divided(name, name, _frame(name, table), _named(name, held_out))
        for name, table in frames.items()
    ]
    return prepare(tables, files.reading)


def _frame(name: str, table: Any) -> "pl.DataFrame":
    return as_frame(table, f"site {name!r}")


def _named(name: str, frames: Mapping[str, "pl.DataFrame"]) -> "tuple[str, pl.DataFrame] | None":
    return (f"the test rows of {name}", frames[name]) if name in frames else None
