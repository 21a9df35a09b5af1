"""Which code the folder of a run may have executed: what its user has run, or trusts.

A folder that comes from somebody else says of itself what it likes. So whoever runs settings that
name code leaves a mark in the cache folder: a digest of the settings, which hold a digest of each
file. What a folder names is executed where its settings have such a mark, letter by letter. Of
other settings that is only what the user trusts by name, and what installed packages announce.
"""

import contextlib
import copy
import json
import site
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from fedloom.checksums import digest
from fedloom.errors import SettingsError
from fedloom.experiments.addresses import CODE, Address, address, digest_of, slots
from fedloom.experiments.locations import Admission
from fedloom.experiments.registries import ALL, DATASETS, PROBLEMS
from fedloom.files import cache_folder, write_text

_seen: set[str] = set()  # marks of what this process has run, also where no file is kept


def remember(tables: dict[str, Any]) -> None:
    """Note that the user runs these settings; a disk that takes no note costs a --trust later."""
    if all(any(slot.name in registry for registry in ALL) for slot in slots(tables)):
        return  # fedloom's own, which needs no leave
    mark = _mark(tables)
    _seen.add(mark)
    if (folder := _marks()) is not None:
        with contextlib.suppress(OSError):
            write_text(folder / mark, "")


def admitted(
    told: dict[str, Any], where: str, trust: Sequence[str] = ()
) -> tuple[dict[str, Any], Admission]:
    """The settings that a folder has, and what may be loaded because they name it.

    Args:
        told: The settings as they were found, with the digests of files.
        where: What messages call the folder.
        trust: Files and modules that the user trusts. A file stands in for the one of the same
            content in the settings, wherever that was.
    """
    known, tables = _is_known(told), copy.deepcopy(told)
    code = told.get(CODE)
    code = dict(code) if isinstance(code, dict) else {}
    trusted = {_stand_in(tables, code, n, where) if n.endswith(".py") else n for n in trust}
    if code:
        tables[CODE] = code

    def admit(kind: str, name: str) -> None:
        at = address(name)
        if at is None:
            if not known and not _is_installed(kind, name):
                raise _unknown(where, kind, name, "Install the package that announces it")
            return
        # Any function that a module happens to have can be named as data, with any arguments.
        if not known and (at.where not in trusted or kind == DATASETS.kind):
            raise _unknown(
                where,
                kind,
                name,
                "Look at the code and at settings.toml; if you trust both, run settings.toml anew"
                + ("" if kind == DATASETS.kind else f", or add --trust {_shown(at)}"),
            )
        if at.is_file and code.get(at.where) != (digest_of(Path(at.where)) or ""):
            raise SettingsError(
                f"{where} names code, {name}, that is not the file it was run with; it is not "
                f"executed. Undo the change, or add --trust FILE.py if the file lies elsewhere now."
            )

    return tables, admit


def also(admit: Admission, own: dict[str, Any]) -> Admission:
    """Admit as well what these tables name, which are the user's own."""
    names = set(_texts(own))

    def either(kind: str, name: str) -> None:
        if name not in names:
            admit(kind, name)

    return either


def _stand_in(tables: dict[str, Any], code: dict[str, Any], name: str, where: str) -> str:
    """Put a file that is trusted in the place of those with its content; returns its path."""
    file = Path(name).expanduser().resolve()
    content = digest_of(file)
    if content is None:
        raise SettingsError(f"--trust: there is no file {name}. Check the path.")
    same = [path for path, its in code.items() if its == content]
    if not same:
        raise SettingsError(
            f"--trust {name}: {where} was run with no file of this content; it names "
            f"{', '.join(code) or 'none'}. Give the file as it was in the run, or leave it out."
        )
    for path in same:
        del code[path]
    code[str(file)] = content
    for slot in list(slots(tables)):
        at = address(slot.name)
        if at is not None and at.where in same:
            slot.holder[slot.key] = str(Address(str(file), at.name))
    return str(file)


def _is_known(tables: dict[str, Any]) -> bool:
    mark, folder = _mark(tables), _marks()
    return mark in _seen or (folder is not None and (folder / mark).is_file())


def _mark(tables: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(tables))  # as they are read from a file
    return digest(json.dumps(plain, sort_keys=True).encode())


def _marks() -> Path | None:
    """The user's own folder of marks; a relative one may lie in the folder of somebody else."""
    folder = cache_folder("settings-that-were-run")
    return folder if folder is not None and folder.is_absolute() else None


def _is_installed(kind: str, key: str) -> bool:
    """Whether what announces a key was installed, and does not just lie where one works."""
    places = [*site.getsitepackages(), *map(sysconfig.get_path, ("purelib", "platlib"))]
    if site.ENABLE_USER_SITE:
        places.append(site.getusersitepackages())
    homes = {Path(place).resolve() for place in places}
    return all(
        point.dist is not None and Path(str(point.dist.locate_file(""))).resolve() in homes
        for point in entry_points(group=f"fedloom.{kind}", name=key)
    )


def _unknown(where: str, kind: str, name: str, advice: str) -> SettingsError:
    instead = " In Python, pass problem=... to predict." if kind == PROBLEMS.kind else ""
    return SettingsError(
        f"{where} names code, {name}, and it is not executed: fedloom has no note on this machine "
        f"that you ran these settings (older versions kept none). {advice}.{instead}"
    )


def _shown(at: Address) -> str:
    return f"{Path(at.where).name}, your file of the same content" if at.is_file else at.where


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _texts(inner)
