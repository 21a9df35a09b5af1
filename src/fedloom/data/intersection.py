"""Private set intersection of two parties (the `psi` extra, OpenMined's library).

The party that asks learns which of its ids the other one has; the other learns nothing. Only
encrypted ids pass between them: a request, and an answer to it.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedloom.errors import WireError
from fedloom.hints import needs

Answer = tuple[bytes, bytes]  # the asker's ids encrypted a second time, and the other's own ids

# Encrypted ids travel as they are, sorted by the library. Its compressed sets save 30 bytes an id,
# and fail where one party has a few ids and the other one thousands, or none.
_EXACT = 0.5  # chance of a false positive, which the library wants to be told; there are none here


class Asking:
    """The party that shall learn which of its ids another party has."""

    def __init__(self, own: np.ndarray):
        self._own = own
        self._key = _library().client.CreateWithNewKey(True)

    def request(self) -> bytes:
        """What the other party gets."""
        return self._key.CreateRequest(self._own.tolist()).SerializeToString()

    def found(self, answer: Answer) -> np.ndarray:
        """Which of the own ids the other party has."""
        psi = _library()
        again, theirs = _read(psi.Response, answer[0]), _read(psi.ServerSetup, answer[1])
        found = np.zeros(len(self._own), bool)
        if len(again.encrypted_elements) != len(found):
            raise WireError(
                f"a message of the private set intersection must have the {len(found)} ids that "
                f"were asked for, encrypted again; it has {len(again.encrypted_elements)}."
            )
        with _understood():
            found[list(self._key.GetIntersection(theirs, again))] = True
        return found


def reply_to(request: bytes, own: np.ndarray) -> Answer:
    """What the party that is asked sends back."""
    psi = _library()
    key = psi.server.CreateWithNewKey(True)
    asked = _read(psi.Request, request)
    theirs = key.CreateSetupMessage(
        _EXACT, len(asked.encrypted_elements), own.tolist(), psi.DataStructure.RAW
    )
    with _understood():
        return key.ProcessRequest(asked).SerializeToString(), theirs.SerializeToString()


def _library() -> Any:
    needs("private_set_intersection.python", "psi")
    import private_set_intersection.python as psi

    return psi


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """What the library says of ids that are no encrypted ones is an error of the message."""
    try:
        yield
    except (RuntimeError, IndexError):
        raise WireError(
            "a message of the private set intersection holds something else than encrypted ids. "
            "Both ends must have the same version of the psi extra."
        ) from None


def _read(kind: Callable[[], Any], data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise WireError(f"a message of the private set intersection is damaged: {error}.") from None
    return message
