"""One file a site: which files they are, and which of their rows are held out for testing."""

import functools
import glob
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.clients import Clients
from fedloom.data.dates import Dates, dates_rule
from fedloom.data.dialects import Dialect, decimal_param, encoding_param, separator_param
from fedloom.data.frames import read_frame
from fedloom.data.labels import second_label
from fedloom.data.packed import PACKINGS, bare_name
from fedloom.draws import SEED
from fedloom.errors import DataError, MissingDataError, ParameterError
from fedloom.hints import closest
from fedloom.parameters import Rule, between, flag, param, parametrised
from fedloom.preparation import tables
from fedloom.preparation.fitting import prepare
from fedloom.preparation.labelled import check_test_rows, labelled
from fedloom.preparation.tables import Reading, SiteTable
from fedloom.rules import text

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES = tuple(kind + packing for kind in (".csv", ".parquet") for packing in PACKINGS)

a_text = text("sites/*.csv")
_names = Rule(
    lambda v: isinstance(v, tuple) and all(isinstance(name, str) for name in v),
    "a list of names of columns",
    None,
    {"type": "array", "items": {"type": "string"}},
)


def names_param(doc: str) -> Any:
    """A field for a list of columns."""
    return param(_names, doc, default=())


def dates_param() -> Any:
    """A field for the parts of dates."""
    rule = dates_rule.or_none("dates are left out")
    return param(rule, "columns of dates, with the parts to learn from", default=None)


def check_listed(
    owner: str,
    special: Mapping[str, str],
    listed: Mapping[str, tuple[str, ...]],
    ignore: tuple[str, ...],
) -> None:
    """Refuse lists of columns that name the label (or an id), or one column to use and leave out.

    Args:
        owner: Whose lists these are, for messages.
        special: What is no feature, by what it is.
        listed: The columns that are used, by the names of the lists.
        ignore: Those that are left out.
    """
    used = [name for names in listed.values() for name in names]
    for what, column in special.items():
        if column in (*used, *ignore):
            raise ParameterError(
                f"{owner}: {column!r} is the {what}, and is not to be listed. Take it out of "
                f"{', '.join(listed)} and ignore."
            )
    for name in used:
        if name in ignore:
            raise ParameterError(
                f"{owner}: a column is used or left out; {name!r} is in ignore and in another "
                f"list. Take it out of one."
            )


@parametrised
class SiteFiles:
    """A CSV or Parquet file for each site, all with the same columns."""

    sites: str = param(a_text, "a folder, or a pattern such as sites/*.parquet")
    label: str = param(a_text, "the column to predict")
    test: str | None = param(
        a_text.or_none("no test files"),
        "folder or pattern of test files, each with the name of its site's file",
        default=None,
    )
    test_fraction: float | None = param(
        between(0, 1).or_none("no rows"), "share of each site's rows to hold out", default=None
    )
    features: tuple[str, ...] = names_param(
        "columns to learn from; by default all but the label and what looks like keys or dates"
    )
    dates: Dates | None = dates_param()
    ignore: tuple[str, ...] = names_param("columns to leave out")
    categorical: tuple[str, ...] = names_param("columns of words, whatever they look like")
    numeric: tuple[str, ...] = names_param("columns of numbers, whatever they look like")
    regression: bool | None = param(
        flag.or_none("where some label is not whole"),
        "whether the label is a number to predict",
        default=None,
    )
    event: str | None = param(
        a_text.or_none("the label is not a time"),
        "the column that has 1 for an event at the time that the label names, 0 for none",
        default=None,
    )
    exposure: str | None = param(
        a_text.or_none("the label has none"),
        "the column with the exposure behind the count that the label names",
        default=None,
    )
    seed: int = param(SEED, "seed of the choice of held-out rows", default=0)
    separator: str | None = separator_param()
    decimal: str | None = decimal_param()
    encoding: str | None = encoding_param()

    def __post_init__(self) -> None:
        if self.test is not None and self.test_fraction is not None:
            raise ParameterError(
                "SiteFiles: test and test_fraction exclude each other; got both. Leave one out."
            )
        for name in self.categorical:
            if name in self.numeric:
                raise ParameterError(
                    f"SiteFiles: a column holds numbers or words; {name!r} is in both numeric and "
                    f"categorical. Take it out of one."
                )
        listed = {
            "features": self.features,
            "dates": tuple(self.dates or ()),
            "categorical": self.categorical,
            "numeric": self.numeric,
        }
        check_listed("SiteFiles", {"label": self.label}, listed, self.ignore)

    def tables(self) -> list[SiteTable]:
        """Read the files."""
        found = named_files(self.sites, "data.sites")
        held_out = {} if self.test is None else named_files(self.test, "data.test")
        for name, path in held_out.items():
            if name not in found:
                raise DataError(
                    f"{path}: a test file must have the name of a site's file; there is no site "
                    f"{name!r}. {closest(name, found)}"
                )
        return [self.table(name, path, held_out.get(name)) for name, path in found.items()]

    def clients(self) -> Clients:
        """Read the files, and prepare them without pooling their rows."""
        return prepare(self.tables(), self.reading)

    @property
    def dialect(self) -> Dialect:
        """How CSV files are written, as far as the settings say."""
        return Dialect(self.separator, self.decimal, self.encoding)

    @property
    def reading(self) -> Reading:
        """How every site reads its table."""
        second = second_label("SiteFiles", self.event, self.exposure)
        return Reading(
            self.label,
            self.ignore,
            self.categorical,
            self.numeric,
            self.regression if second is None else True,
            tuple(name for name in self.features if name not in (self.dates or ())),
            self.dates or {},
            self.encoding,
            self.event,
            self.exposure,
        )

    def table(self, name: str, path: Path, test_path: Path | None) -> SiteTable:
        """Read one site's files."""
        read = functools.partial(read_frame, dialect=self.dialect, codes=self.categorical)
        test = None if test_path is None else (str(test_path), read(test_path))
        return self.divided(name, str(path), read(path), test)

    def divided(
        self,
        name: str,
        source: str,
        frame: "pl.DataFrame",
        test: "tuple[str, pl.DataFrame] | None",
    ) -> SiteTable:
        """One site's training and test rows, without those that have no label."""
        train = labelled(source, frame, self.reading)
        if train.height == 0:
            raise DataError(
                f"{source}: a site must have at least one row with a label; {self.label!r} has "
                f"none in {frame.height} rows. Fill it in, or take the file away."
            )
        unlabelled = frame.height - train.height
        if test is not None:
            check_test_rows(*test, train, self.reading)
            whole = labelled(*test, self.reading)
            tables.require(test[0], whole, train.columns)
            held_out = whole.select(train.columns)
            unlabelled += test[1].height - held_out.height
        else:
            train, held_out = self._hold_out(name, train)
        return SiteTable(name, source, train, held_out, unlabelled, test and test[0])

    def _hold_out(self, name: str, frame: "pl.DataFrame") -> tuple["pl.DataFrame", "pl.DataFrame"]:
        """Training and test rows of a site, whatever the others have; one row at least trains."""
        if self.test_fraction is None:
            return frame, frame.clear()
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        order = rng.permutation(frame.height)
        kept = max(1, frame.height - round(self.test_fraction * frame.height))
        return frame[np.sort(order[:kept])], frame[np.sort(order[kept:])]


def named_files(pattern: str, option: str) -> dict[str, Path]:
    """The files of a folder or a pattern by the names of their sites, sorted.

    Args:
        pattern: The folder, or the pattern.
        option: What messages call it.
    """
    place = Path(pattern).expanduser()
    if place.is_dir():
        paths = [path for path in place.iterdir() if path.name.endswith(_SUFFIXES)]
    else:
        paths = [Path(path) for path in glob.glob(str(place)) if Path(path).is_file()]
    if not paths:
        raise MissingDataError(
            f"{option}: there is no CSV or Parquet file at {pattern!r}. "
            f"Check the path; it is taken from the folder where fedloom is called."
        )
    found: dict[str, Path] = {}
    for path in sorted(paths):
        if not path.name.endswith(_SUFFIXES):
            raise DataError(
                f"{path}: a site's file must be .csv or .parquet; got {path.suffix!r}. "
                f"Narrow the pattern."
            )
        name = bare_name(path).rpartition(".")[0]
        if name in found:
            raise DataError(
                f"{path}: there must be one file for each site; {found[name]} has the same name. "
                f"Rename or remove one."
            )
        found[name] = path
    return found
