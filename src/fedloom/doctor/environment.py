"""The environment of fedloom: versions, devices, memory, folders and extras."""

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import jax

from fedloom.data.fetch import data_folder
from fedloom.doctor.finding import NOTE, RIGHT, WRONG, Finding
from fedloom.files import cache_folder
from fedloom.pictures.labels import bytes_text
from fedloom.rounds import native_meetings
from fedloom.rounds.crew import cores
from fedloom.version import __version__
from fedloom.versions import KNOWN_WRONG, installed

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "polars", "scikit-learn")
_FOR_DEVELOPERS = ("dev", "docs")
_NEEDED_MEMORY = 2e9


def examine() -> Iterator[Finding]:
    """Everything that can be said without computing."""
    yield from _machine()
    yield from _cores()
    yield from _versions()
    yield from _devices()
    yield from _folders()
    yield from _extras()


def _machine() -> Iterator[Finding]:
    yield Finding("machine", "python", f"{platform.python_version()}, {sys.platform}")
    yield Finding("machine", "processor", f"{platform.machine()}, {os.cpu_count()} cores")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        scarce = memory < _NEEDED_MEMORY
        advice = "2 GB or more are advised" if scarce else ""
        yield Finding("machine", "memory", bytes_text(memory), NOTE if scarce else RIGHT, advice)


def _cores() -> Iterator[Finding]:
    """How threads that compute a run together meet."""
    made, hindrance = native_meetings.attempt()
    if made is not None:
        yield Finding("machine", "crew", "its threads meet in compiled code")
    elif cores() > 1:
        advice = f"small models are slower on several cores: {hindrance}"
        yield Finding("machine", "crew", "its threads meet in Python", NOTE, advice)


def _versions() -> Iterator[Finding]:
    source = f"{__version__}, from its source"
    yield Finding("versions", "fedloom", installed("fedloom") or source)
    for package in _PACKAGES:
        version = installed(package)
        wrong = [w for w in KNOWN_WRONG if (w.package, w.version) == (package, version)]
        if version is None:
            yield Finding("versions", package, "not installed", WRONG, f"pip install {package}")
        elif wrong:
            advice = f"{wrong[0].reason}; install {wrong[0].instead}"
            yield Finding("versions", package, version, WRONG, advice)
        else:
            yield Finding("versions", package, version)


def every_device() -> list[jax.Device]:
    """The devices of this process: those that JAX uses by default, and the CPU."""
    devices = jax.local_devices()
    on_cpu = jax.default_backend() == "cpu"
    return devices if on_cpu else [*devices, *jax.local_devices(backend="cpu")]


def _devices() -> Iterator[Finding]:
    for device in every_device():
        limit = (device.memory_stats() or {}).get("bytes_limit")
        memory = f", {bytes_text(limit)} for JAX" if limit else ""
        yield Finding("devices", str(device), device.device_kind + memory)


def _folders() -> Iterator[Finding]:
    programs, own = cache_folder("programs"), data_folder()
    if programs is None:
        advice = "every process compiles anew, and nothing is downloaded"
        yield Finding("folders", "cache", "off", NOTE, advice)
    elif _writable(programs):
        yield Finding("folders", "cache", str(programs.parent))
    else:
        advice = "it cannot be written: name another folder in FEDLOOM_CACHE"
        yield Finding("folders", "cache", str(programs.parent), NOTE, advice)
    if own is None:
        advice = "public data are downloaded; FEDLOOM_DATA names a folder of local copies"
        yield Finding("folders", "data", "not set", NOTE, advice)
    elif own.is_dir():
        yield Finding("folders", "data", str(own))
    else:
        yield Finding("folders", "data", str(own), WRONG, "FEDLOOM_DATA names no folder")


def _writable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def _extras() -> Iterator[Finding]:
    needs: dict[str, list[str]] = {}
    if installed("fedloom") is None:  # it runs from its source, which has no list of extras
        return
    for line in importlib.metadata.requires("fedloom") or ():
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        package = re.match(r"[\w.-]+", line)
        if extra and package and extra[1] not in _FOR_DEVELOPERS:
            needs.setdefault(extra[1], []).append(package[0])
    for name, packages in sorted(needs.items()):
        missing = [package for package in packages if installed(package) is None]
        if missing:
            advice = f"pip install 'fedloom[{name}]'"
            yield Finding("extras", name, f"without {', '.join(missing)}", NOTE, advice)
        else:
            yield Finding("extras", name, "installed")
