"""Find out in bounded time whether the server is there and accepts our certificate, or why not.

FLARE itself retries for ever if a certificate is refused, and does not say so.
"""

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Callable

from fedloom.errors import FederationError
from fedloom.federation.kits import Kit

_FILES = {"server": "fed_server.json", "site": "fed_client.json", "person": "fed_admin.json"}
_SECONDS = 10.0  # for a connection, and for each step of the handshake
_PAUSE = 1.0
# What a server answers in the handshake (as the protocol that it picks of two) on how it is: with a
# full disk FLARE answers nothing at all any more.
WELL, CANNOT_WRITE = "fedloom-well", "fedloom-cannot-write"


class NobodyThereError(FederationError):
    """No server answers at the address; it may be started later."""


class CannotWriteError(FederationError):
    """The server is there, but cannot write to its disk."""


def address(kit: Kit) -> tuple[str, int]:
    """The address of a kit's server."""
    file = kit.path / "startup" / _FILES[kit.role]
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        if kit.role == "person":
            return str(facts["admin"]["host"]), int(facts["admin"]["port"])
        host, _, port = facts["servers"][0]["service"]["target"].rpartition(":")
        return host, int(port)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise FederationError(
            f"{file}: does not say where the server is ({type(error).__name__}). Bring the kit "
            f"back as it was provisioned."
        ) from error


def knock(kit: Kit) -> None:
    """Do a TLS handshake with the server and disconnect; raises the reason if it fails."""
    host, port = address(kit)
    place, startup = f"{host}:{port}", kit.path / "startup"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # as FLARE, which compares the name with the kit's
    context.set_alpn_protocols([WELL, CANNOT_WRITE])
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        plain = socket.create_connection((host, port), _SECONDS)
    except OSError as error:
        raise NobodyThereError(
            f"no server at {place} ({error.strerror or error}). Is `fedloom serve` running there, "
            f"and its port open?"
        ) from error
    try:
        with plain, context.wrap_socket(plain) as secured:
            _await_welcome(secured)
            answer = secured.selected_alpn_protocol()
    except ssl.SSLCertVerificationError as error:
        raise FederationError(
            f"the server at {place} is not that of {kit.project}, by its certificate "
            f"({error.verify_message}). Give a kit of the same project as the server's; if it is, "
            f"compare clocks and renew what has expired."
        ) from error
    except OSError as error:
        raise FederationError(
            f"the server at {place} refuses the certificate of {kit.name} "
            f"({getattr(error, 'reason', None) or error}). Give a kit of the same project as the "
            f"server's, one that has not expired."
        ) from error
    if answer == CANNOT_WRITE:
        raise CannotWriteError(
            f"the server at {place} cannot write to its disk, and does nothing until it can. Make "
            f"room there; a run goes on with `fedloom submit --resume`."
        )


def await_server(kit: Kit, seconds: float, say: Callable[[str], None]) -> None:
    """Wait until the server answers and accepts the kit's certificate; print what it waits for."""
    host, port = address(kit)
    until, told = time.monotonic() + seconds, ""
    while True:
        try:
            return knock(kit)
        except NobodyThereError as error:
            if time.monotonic() > until:
                raise NobodyThereError(f"{error} Gave up after {seconds:g} s.") from error
            cause = error.__cause__
            reason = getattr(cause, "strerror", None) or str(cause)
            if reason != told:
                say(f"waiting for the server at {host}:{port} ({reason}), {seconds:g} s at most")
            told = reason
        time.sleep(_PAUSE)


def _await_welcome(secured: ssl.SSLSocket) -> None:
    """Wait for the ticket that a server sends when it has accepted our certificate.

    In TLS 1.3 our side of the handshake ends before the server has checked our certificate.
    """
    until = time.monotonic() + _SECONDS
    secured.settimeout(0.05)
    while secured.session is None or not secured.session.has_ticket:
        with contextlib.suppress(TimeoutError):
            if secured.recv(1) == b"":
                raise ConnectionResetError("it hung up")
        if time.monotonic() > until:
            raise TimeoutError("it does not say that it accepts it")
