"""Addresses of what is not fedloom's own: `my_method.py:MyMethod`, `package.module:MyMethod`.

A file is executed, and a module imported, as Python does with a program of one's own. Who may have
this done is not decided here: see `Location.admit`.
"""

import ast
import hashlib
import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from fedloom.errors import SettingsError
from fedloom.experiments.locations import Location
from fedloom.files import inside
from fedloom.hints import closest

_NAME = r"[^\W\d]\w*"
_FILE = re.compile(rf"(.+\.py):({_NAME})")
_MODULE = re.compile(rf"({_NAME}(?:\.{_NAME})*):({_NAME})")
_TAGS = ("key", "kind", "scheme")  # by which tables name a class
NETWORK = "graph"  # the kind of a network that lies in a file
CODE = "code"  # of resolved settings: the files of one's own, with their SHA-256
_files: dict[str, Path] = {}  # what was executed, by the name of the module that it became


class Address(NamedTuple):
    """A name in a file, or in a module."""

    where: str
    name: str

    @property
    def is_file(self) -> bool:
        """Whether it leads to a file."""
        return self.where.endswith(".py")

    def __str__(self) -> str:
        return f"{self.where}:{self.name}"


def address(text: object) -> Address | None:
    """The address that a text is, if it is one."""
    found = isinstance(text, str) and (_FILE.fullmatch(text) or _MODULE.fullmatch(text))
    return Address(*found.groups()) if found else None


def check_named(text: str, place: Location) -> None:
    """Refuse a file without a name behind it; the error lists the names that are in it."""
    file = Path(text).expanduser()
    if file.suffix != ".py":
        return
    if not file.is_file():
        raise place.error(f"there is no file {text}. Check the path.")
    try:
        body = ast.parse(file.read_bytes()).body  # read, not executed
    except SyntaxError as error:
        raise place.error(f"{text}, line {error.lineno}: {error.msg}. Correct it.") from error
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    names = [name for name in classes if not name.startswith("_")]
    chosen = names[-1] if names else "MyMethod"
    there = f"It has the classes {', '.join(names)}" if names else "It has no class"
    raise place.error(
        f"{text} is a file: say what in it is meant, after a colon, as in {text}:{chosen}. {there}."
    )


def short_name(text: str) -> str:
    """What a thing is called where its key is shown: of an address, the part after the colon."""
    found = address(text)
    return text if found is None else found.name


class Slot(NamedTuple):
    """A name in the tables of a settings file that stands for a thing, and where it is."""

    name: str
    path: tuple[str, ...]
    holder: Any  # the table or list, which may be written to
    key: Any


def slots(tables: dict[str, Any]) -> Iterator[Slot]:
    """All keys and addresses by which a settings file names things."""
    for name, table in tables.items():
        if name == "data" and isinstance(table, dict):
            yield from _slot(table, "name", ("data", "name"))
        elif name != "data":
            yield from _inside(table, (name,))


def _inside(part: Any, path: tuple[str, ...]) -> Iterator[Slot]:
    if isinstance(part, list):
        for number, entry in enumerate(part):
            if path == ("run", "metrics"):
                yield from _slot(part, number, path)
            yield from _inside(entry, path)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in _TAGS:
                yield from _slot(part, key, (*path, key))
            yield from _inside(value, (*path, key))


def _slot(holder: Any, key: Any, path: tuple[str, ...]) -> Iterator[Slot]:
    name = holder.get(key) if isinstance(holder, dict) else holder[key]
    if isinstance(name, str):
        yield Slot(name, path, holder, key)


def file_of(name: str) -> Path | None:
    """The file to which a name leads, if it is the address of one."""
    at = address(name)
    return Path(at.where) if at is not None and at.is_file else None


def name_files_absolutely(tables: dict[str, Any], folder: Path) -> None:
    """Write the files that tables name as absolute paths; relative ones lie in the folder.

    So a run folder's settings mean the same file wherever they are read again.
    """
    for slot in list(slots(tables)):
        if (file := file_of(slot.name)) is not None:
            where = (folder / file.expanduser()).resolve()
            slot.holder[slot.key] = str(Address(str(where), short_name(slot.name)))
    for table in networks(tables):
        table["file"] = str((folder / Path(table["file"]).expanduser()).resolve())


def networks(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of networks that lie in files, which may be written to."""
    holders = [slot.holder for slot in slots(tables) if slot.name == NETWORK]
    return [
        held for held in holders if isinstance(held, dict) and isinstance(held.get("file"), str)
    ]


def beside(table: dict[str, Any], folder: Path) -> Path:
    """Where a run's folder keeps a network, for whoever has no other file of it."""
    return inside(folder, f"network-{str(table.get('sha256'))[:16]}.safetensors")


def digests(tables: dict[str, Any]) -> dict[str, str | None]:
    """The files that tables name, with their SHA-256."""
    files = [file for slot in slots(tables) if (file := file_of(slot.name)) is not None]
    return {str(file): digest_of(file) for file in files}


def digest_of(file: Path) -> str | None:
    """The SHA-256 of a file; None where there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def check_unchanged(files: Mapping[str, str | None], run: object) -> None:
    """Raise SettingsError where a file of one's own is not what it was when a run began."""
    for code, digest in files.items():
        if digest_of(Path(code)) not in (digest, None):
            raise SettingsError(
                f"{code} is not what it was when the run in {run} began, so the run cannot go "
                f"on as it would have. Undo the change, or run it anew with another --out."
            )


def module_of(at: Address, place: Location) -> ModuleType:
    """Execute the file or import the module of an address."""
    if at.is_file and not Path(at.where).is_file():
        raise place.error(
            f"there is no file {at.where}. A relative path begins at the folder of the settings "
            f"file; check the path."
        )
    try:
        return _executed(Path(at.where)) if at.is_file else importlib.import_module(at.where)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if not at.is_file and missing and f"{at.where}.".startswith(f"{missing}."):
            raise place.error(
                f"there is no module {missing!r} here. Install its package, or name a file: "
                f"my_file.py:{at.name}."
            ) from error
        what = "executed" if at.is_file else "imported"
        said = f"{type(error).__name__}: {error}"
        line = line_of(error, at.where if at.is_file else None)
        raise place.error(f"{at.where} cannot be {what}{line}: {said}. Correct it.") from error


def thing_at(at: Address, place: Location, fits: Callable[[Any], bool] = callable) -> Any:
    """What stands at an address; where there is nothing, what is there that fits is named."""
    module = module_of(at, place)
    if not hasattr(module, at.name):
        fitting = [name for name, value in vars(module).items() if fits(value)]
        hint = closest(at.name, fitting) if fitting else "Nothing in it fits; check the file."
        raise place.error(f"{at.where} has no {at.name!r}. {hint}")
    return getattr(module, at.name)


def _executed(file: Path) -> ModuleType:
    """The module that a file makes; the same file with the same text is executed once."""
    text = file.read_bytes()
    mark = hashlib.sha256(str(file).encode() + b"\0" + text).hexdigest()[:12]
    name = f"{file.stem}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(file)
    # Dataclasses and annotations are looked up there while the file is executed.
    sys.modules[name] = module
    sys.path.append(str(file.parent))  # for what it imports from beside it
    try:
        exec(compile(text, str(file), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    _files[name] = file
    return module


def line_of(error: BaseException, file: str | None = None) -> str:
    """The file and line at which an error left it, or else somebody's code, in brackets."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({error.filename}, line {error.lineno})"
    own = str(Path(__file__).parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((own, "<frozen"))
    ]
    frames = [frame for frame in frames if frame.filename == file] or frames
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def address_of(cls: type) -> Address | None:
    """Where a class can be found again, unless it is fedloom's own or nobody else can find it."""
    module, name = cls.__module__, cls.__qualname__
    if getattr(sys.modules.get(module), name, None) is not cls or module == "__main__":
        return None
    if module in _files:
        return Address(str(_files[module]), name)
    return None if module.split(".")[0] == "fedloom" else Address(module, name)
