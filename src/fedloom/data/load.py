"""Load data by a name from the catalogue, or from a path."""

import functools
import inspect
import numbers
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from fedloom.data.array_files import read_array_folder
from fedloom.data.catalogue import CATALOGUE
from fedloom.data.dataset import Dataset
from fedloom.data.folders import files_below
from fedloom.data.frames import as_frame
from fedloom.data.image_folder import PICTURES, read_image_folder
from fedloom.data.images import read_idx_images
from fedloom.data.leaf import read_leaf
from fedloom.data.libsvm import read_libsvm
from fedloom.data.packed import bare_name, find
from fedloom.data.tables import from_frame, read_table
from fedloom.data.tokens import read_text_folder, read_text_table
from fedloom.errors import DataError, MissingDataError, ParameterError
from fedloom.hints import closest

_IDX_IMAGES = re.compile(r"images[-.]idx3[-.]ubyte$")
_READERS: dict[str, Callable[..., Dataset]] = {
    ".svm": read_libsvm,
    ".libsvm": read_libsvm,
    ".txt": read_libsvm,
    ".csv": read_table,
    ".parquet": read_table,
}

_MOST = 2**31 - 1
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda v: isinstance(v, str), "a text"),
    bool: (lambda v: isinstance(v, bool | np.bool_), "true or false"),
    int: (
        lambda v: (
            isinstance(v, numbers.Integral) and not isinstance(v, bool) and abs(int(v)) <= _MOST
        ),
        "a whole number < 2^31",
    ),
    Path: (lambda v: isinstance(v, str | Path), "a path"),
    types.NoneType: (lambda v: v is None, "none"),
}


def load(name_or_path: Any, *, verify: bool = False, **options: Any) -> Dataset:
    """Load a dataset: by its name in the CATALOGUE, from a file or folder, or from a data frame.

    The suffix of a file says what it holds, and .gz, .bz2 or .xz may follow: LIBSVM text (.svm,
    .libsvm, .txt), tables (.csv, .parquet) and IDX images (...-images-idx3-ubyte). For a table of
    texts, the option `text` names their column.

    A folder may hold LEAF's JSON; pictures (.png, .jpg) or texts (.txt) in folders CLASS/ or
    CLIENT/CLASS/; or x.npy and y.npy, directly or in one folder for each site (x then stays on the
    disk). A relative path that looks like a name must begin with `./`.

    Args:
        name_or_path: What to load: a name, a path, or a frame of pandas or Polars.
        verify: Whether to check the files of a catalogued dataset against their published
            checksums. What fedloom downloads itself is always checked.
        options: Options of the reader: see `read_libsvm`, `read_table`, `read_text_table`,
            `read_leaf`, `read_image_folder`, `read_text_folder`, `read_array_folder`,
            `read_shakespeare`, `read_agnews`. A `test` option is a path.
    """
    if isinstance(name_or_path, str) and name_or_path in CATALOGUE:
        return CATALOGUE[name_or_path].open(verify=verify, **options)
    if not isinstance(name_or_path, str | Path):
        tested = options.pop("test", None)
        if tested is not None:
            options["test"] = ("the test table", as_frame(tested, "load"))
        frame = as_frame(name_or_path, "load")
        return from_frame(frame, **_checked("load", from_frame, options, paths=False))
    if verify:
        raise ParameterError(
            f"load: verify is for names of the catalogue; got {str(name_or_path)!r}. Leave it out."
        )
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise _not_there(name_or_path, path)
    reader = _reader(path, options)
    return reader(path, **_checked(path, reader, options))


def _not_there(name_or_path: str | Path, path: Path) -> Exception:
    named = isinstance(name_or_path, str) and path.name == name_or_path
    if named and _suffix(path) not in _READERS and not _IDX_IMAGES.search(bare_name(path)):
        return ParameterError(
            f"load: there is no dataset {name_or_path!r}, nor a file or folder of that name. "
            f"{closest(path.name, CATALOGUE, where='fedloom list datasets')}"
        )
    return MissingDataError(f"{path}: there is no such file or folder. Check the path.")


def _reader(path: Path, options: dict[str, Any]) -> Callable[..., Dataset]:
    """The reader for a path, by what it is or how its name ends."""
    if path.is_dir():
        return _of_folder(path)
    if _IDX_IMAGES.search(bare_name(path)):
        return _read_idx
    if _suffix(path) not in _READERS:
        raise DataError(
            f"{path}: a file's kind must be told by its suffix, {', '.join(_READERS)} or "
            f"-images-idx3-ubyte; got {_suffix(path)!r}. Rename the file."
        )
    reader = _READERS[_suffix(path)]
    return read_text_table if reader is read_table and "text" in options else reader


def _of_folder(path: Path) -> Callable[..., Dataset]:
    """The reader for a folder, by what lies in it."""
    suffixes = {_suffix(file).lower() for file in files_below(path)}
    if ".npy" in suffixes:
        return read_array_folder
    if ".json" in suffixes or not suffixes & {*PICTURES, ".txt"}:
        return read_leaf
    return read_image_folder if suffixes & {*PICTURES} else read_text_folder


def _suffix(path: Path) -> str:
    return Path(bare_name(path)).suffix


def _read_idx(images: Path, *, test: Path | None = None) -> Dataset:
    """IDX images with the labels that lie beside them."""
    held_out = None if test is None else _read_idx(test)
    place = bare_name(images).replace("images", "labels").replace("idx3", "idx1")
    labels = find(images.parent, place)
    if labels is None:
        raise MissingDataError(
            f"{images}: its labels must lie beside it as {place}; there is no such file. "
            f"Put them there."
        )
    return read_idx_images(images, labels, test=held_out)


def _checked(
    path: object, reader: Callable[..., Dataset], options: dict[str, Any], paths: bool = True
) -> dict[str, Any]:
    """The options, after a look at whether the reader knows them and has what it needs."""
    known = {
        name: field
        for name, field in inspect.signature(reader).parameters.items()
        if field.kind is field.KEYWORD_ONLY
    }
    for name in options:
        if name not in known:
            raise ParameterError(f"{path}: there is no option {name!r}. {closest(name, known)}")
    for name, field in known.items():
        if field.default is field.empty and name not in options:
            raise ParameterError(
                f"{path}: the option {name} must be given; got no value. Pass {name}=..."
            )
    if options:
        check_kinds(path, reader, options)
    if paths and options.get("test") is not None:
        options = {**options, "test": Path(options["test"]).expanduser()}
    return options


def check_kinds(owner: object, reader: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise ParameterError for an option of another kind than its annotation."""
    inner: Any = reader.func if isinstance(reader, functools.partial) else reader
    hints = inspect.get_annotations(inner)
    for name, value in options.items():
        if not _fits(value, hints.get(name, Any)):
            usual = inspect.signature(inner).parameters[name].default
            shown = "Change it." if usual is inspect.Parameter.empty else "Change or remove it."
            raise ParameterError(
                f"{owner}: {name} must be {_words(hints[name])}; got {value!r}. {shown}"
            )


def _fits(value: Any, kind: Any) -> bool:
    if kind in _KINDS:
        return _KINDS[kind][0](value)
    inside = typing.get_args(kind)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in inside)
    if typing.get_origin(kind) is Mapping:
        return isinstance(value, Mapping) and all(_fits(v, inside[1]) for v in value.values())
    if kind == Sequence[str]:
        return _is_list(value) and all(_fits(entry, str) for entry in value)
    return True  # shapes, which readers check themselves, and what only Python can pass


def _is_list(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str | bytes | Mapping)


def _words(kind: Any) -> str:
    if kind in _KINDS:
        return _KINDS[kind][1]
    inside = typing.get_args(kind)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_words(option) for option in inside if option is not types.NoneType)
    if typing.get_origin(kind) is Mapping:
        return f"a table, in which each is {_words(inside[1])}"
    return "a list of texts"
