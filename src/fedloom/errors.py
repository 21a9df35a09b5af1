"""The errors that fedloom raises on purpose.

Each message says what is wrong, by which rule, with which value, and ends with what to do.
"""

import dataclasses
import inspect
from typing import Any


class FedloomError(Exception):
    """An error that the user can fix; the command line exits with status 2."""


class ParameterError(FedloomError, ValueError):
    """A parameter breaks its rule."""

    parameter: str | None = None  # which one, where it is a field of the object being made


class UnchangeableError(FedloomError, dataclasses.FrozenInstanceError):
    """A field of a method, a problem or another object of parameters was assigned to."""


class DataError(FedloomError, ValueError):
    """A file or a table is not as it should be; the message names the file, line and rule."""


class MissingDataError(FedloomError, FileNotFoundError):
    """A dataset or another file is not on this machine."""


class SettingsError(FedloomError, ValueError):
    """A settings file cannot be understood."""


class ProtocolError(FedloomError, TypeError):
    """An algorithm breaks a rule of the protocol."""


class UnwrittenError(FedloomError, NotImplementedError):
    """A class lacks a function that its base leaves to it."""


class WireError(FedloomError, ValueError):
    """Bytes from the network are not the message that was expected."""


class NotFiniteError(WireError):
    """A message holds NaN or infinity where its method forbids it."""


class StaleStateError(FedloomError, LookupError):
    """A site is asked to go on from a state that it does not have."""


class RefusedError(FedloomError, PermissionError):
    """A site's policy does not allow what is asked of it."""


class UnopenedError(FedloomError, RuntimeError):
    """A secure sum is not opened: too few are in it, or it would tell more than a sum should."""


class FederationError(FedloomError, RuntimeError):
    """A federation cannot be set up, reached or ended as asked."""


class HostsError(FedloomError, RuntimeError):
    """Several processes cannot compute a run together, or one of them has failed."""


class WorkersError(FedloomError, RuntimeError):
    """Runs that were handed to other processes or hosts did not end."""


class DivergedError(FedloomError, ArithmeticError):
    """The iterates are no longer finite numbers; `result` holds the last good state."""

    result: Any = None  # a `Result` with status "diverged"


def unwritten(owner: object, name: str) -> UnwrittenError:
    """What a base raises in place of a function that it leaves to its subclasses."""
    function = getattr(type(owner), name)
    arguments = ", ".join(inspect.signature(function).parameters)
    base, meaning = function.__qualname__.split(".")[0], inspect.getdoc(function) or ""
    return UnwrittenError(
        f"{type(owner).__name__} must define {name}({arguments}), which {base} leaves to it. "
        f"Write it: {meaning.splitlines()[0]}"
    )
