"""What the server hears of an error at a site: nothing that is about the site's own rows."""

from fedloom.errors import (
    DataError,
    FederationError,
    FedloomError,
    RefusedError,
    StaleStateError,
    UnopenedError,
    WireError,
)

# These are worded for whoever asks: they quote what was asked, and nothing that is the site's own.
MAY_LEAVE = (RefusedError, StaleStateError, UnopenedError, WireError)


def in_other_words(error: Exception) -> FedloomError:
    """What the server may know of an error whose own text must stay at the site."""
    if isinstance(error, DataError):
        return DataError("its table is not what the job needs; its own log says what is wrong.")
    if isinstance(error, OSError) and error.strerror:
        return FederationError(f"it cannot read or write its files: {error.strerror}.")
    return FederationError("it failed; its own log says why.")
