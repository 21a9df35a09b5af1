"""Versions of other packages that are known to give wrong numbers, and their workarounds."""

import importlib.metadata
import os
import sys
import warnings
from typing import NamedTuple


class WrongVersion(NamedTuple):
    """A release that computes something wrong."""

    package: str
    version: str
    reason: str
    instead: str


KNOWN_WRONG = (
    WrongVersion(
        "jaxlib",
        "0.10.2",
        "its CPU compiler miscompiles mapped sums over more than 16,384 rows (jax issue 39103)",
        "jax 0.10.1 on Python 3.11, or 0.11.1 or newer on later Pythons",
    ),
)


def wrong_versions() -> list[WrongVersion]:
    """Those of the installed packages that are known to be wrong."""
    return [wrong for wrong in KNOWN_WRONG if installed(wrong.package) == wrong.version]


def installed(package: str) -> str | None:
    """The version of a package, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def warn_of_wrong_versions() -> None:
    """Warn once, when fedloom is imported, of each version that is known to be wrong."""
    for wrong in wrong_versions():
        warnings.warn(
            f"{wrong.package} {wrong.version} gives wrong numbers: {wrong.reason}. "
            f"Install {wrong.instead}.",
            RuntimeWarning,
            stacklevel=3,
        )


# In these, a product and a sum or maximum that XLA fuses for YNNPACK are wrong beyond 32,768 mapped
# rows (0.10.2: 16,384). Without that fusion all of them are right; `make verify` tells.
_FUSES_WRONGLY = ("0.10.0", "0.10.1", "0.10.2")
_WITHOUT_FUSION = "--xla_cpu_experimental_ynn_fusion_type="


def turn_off_wrong_fusion() -> None:
    """Compile without the fusion that adds up wrongly, where the installed jaxlib has it.

    XLA reads its flags when JAX computes for the first time, so a program that computes before it
    imports fedloom is warned.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if installed("jaxlib") not in _FUSES_WRONGLY or "ynn_fusion_type" in flags:
        return
    os.environ["XLA_FLAGS"] = f"{flags} {_WITHOUT_FUSION}".strip()
    if _has_computed():
        warnings.warn(
            f"JAX has computed before fedloom was imported, so its compiler keeps a fusion that "
            f"adds up wrongly over more than 32,768 rows. Import fedloom first, or set "
            f"XLA_FLAGS={_WITHOUT_FUSION} in the environment.",
            RuntimeWarning,
            stacklevel=3,
        )


# In these, XLA says of every program that it finds in its cache that the machine lacks features and
# that it may crash, where a processor has AVX-512: it takes what LLVM prefers there for what it has
# (jax issue 38445). The programs are right.
_ALARMS_FALSELY = _FUSES_WRONGLY
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_FATAL_ONLY = "3"


def turn_off_false_alarms() -> None:
    """Let XLA log fatal errors only, where it has the false alarm and nobody has set its level.

    It reads the level when JAX is imported. Errors that JAX raises are raised as before.
    """
    if installed("jaxlib") in _ALARMS_FALSELY:
        os.environ.setdefault(_LOG_LEVEL, _FATAL_ONLY)


def _has_computed() -> bool:
    """Whether JAX has read its flags already."""
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public word on it
    asked = getattr(bridge, "backends_are_initialized", None)
    return asked is not None and bool(asked())
