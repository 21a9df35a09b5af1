"""Which versions of fedloom may take part in a run together.

A method's code is at every end, and both ends must mean the same by a message. Versions agree
where their first two numbers do: 1.4.0 and 1.4.7, 0.1.0 and 0.1.3, and not 0.1.0 and 0.2.0.
"""

from fedloom import version
from fedloom.errors import RefusedError


def check_version(other: object, whose: str) -> None:
    """Refuse to run together with another version of fedloom."""
    own = version.__version__
    if not isinstance(other, str) or _series(other) != _series(own):
        told = f"fedloom {other}" if isinstance(other, str) else "no version of fedloom"
        raise RefusedError(
            f"{whose} has {told} and this end has fedloom {own}; the first two numbers must be "
            f"the same. Install the same version at both."
        )


def _series(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
