"""Code of one's own, named by a text: "my_method.py:MyMethod" or "package.module:MyMethod"."""

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from fedloom.errors import MissingDataError, ParameterError
from fedloom.hints import closest


def load_object(text: str, folder: Path) -> object:
    """What a text names, imported; files and packages are looked for from `folder` on.

    Importing runs the file. Only whoever could run it anyway may name it.
    """
    source, colon, name = text.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise ParameterError(
            f"own code must be named FILE.py:NAME or PACKAGE.MODULE:NAME; got {text!r}. "
            f"Write my_method.py:MyMethod."
        )
    module = (
        _from_file((folder / source).resolve())
        if source.endswith(".py")
        else _named(source, folder)
    )
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise ParameterError(f"{source} has no {name}. {closest(name, public or ['nothing'])}")
    return getattr(module, name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise MissingDataError(f"{path}: there is no such file. Check the path before the colon.")
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        name = f"{path.stem}_of_{path.parent.name}"  # that name is another module's
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"{path} is no Python file. Give one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # type hints are looked up there
    try:
        with _found_from(path.parent), _explained(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _named(source: str, folder: Path) -> ModuleType:
    with _found_from(folder), _explained(source):
        return importlib.import_module(source)


@contextlib.contextmanager
def _found_from(folder: Path) -> Iterator[None]:
    """What stands beside the code can be imported by it."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


@contextlib.contextmanager
def _explained(source: str) -> Iterator[None]:
    """An error while code is imported, in a sentence with the line that raised it."""
    try:
        yield
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == source]
        if isinstance(error, SyntaxError):
            lines = [error.lineno]
        at = f", line {lines[-1]}" if lines else ""
        raise ParameterError(
            f"{source}{at}: {type(error).__name__}: {error}. Correct it, then try again."
        ) from error
