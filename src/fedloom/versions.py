"""Versions of other packages that are known to give wrong numbers."""

import importlib.metadata
import os
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

    XLA reads its flags when JAX computes for the first time: a program that computes before it
    imports fedloom has to set the flag itself.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if installed("jaxlib") in _FUSES_WRONGLY and "ynn_fusion_type" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_WITHOUT_FUSION}".strip()
