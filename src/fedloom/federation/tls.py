"""A driver for FLARE's connections: TLS 1.3 with certificates on both sides.

FLARE's own driver also accepts TLS 1.2, lets a visitor who says nothing keep all others waiting,
and does not encrypt what the processes of one host send each other. FLARE accepts other drivers
under URL schemes of their own, and its processes find this one in the folder `drivers/`. Sites and
people still call the server by FLARE's driver, since FLARE lets them use no other scheme; but the
server decides on the version of TLS.
"""

import contextlib
import socket
import ssl
import tempfile
from pathlib import Path
from socketserver import TCPServer, ThreadingTCPServer
from typing import Any

from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo
from nvflare.fuel.f3.drivers.net_utils import get_tcp_urls
from nvflare.fuel.f3.drivers.socket_conn import ConnectionHandler, SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver

from fedloom.federation.reaching import CANNOT_WRITE, WELL

DRIVERS = Path(__file__).parent / "drivers"
SCHEME = "tls13"  # the server's port: whoever has a certificate of the project's authority
OWN_SCHEME = "tls13own"  # between the processes of one kit: its own certificate and no other
HANDSHAKE_SECONDS = 20.0


class TlsDriver(TcpDriver):
    """FLARE's TCP driver with a stricter idea of who may connect, and how."""

    @staticmethod
    def supported_transports() -> list[str]:
        """The schemes of URLs that this driver is for."""
        return [SCHEME, OWN_SCHEME]

    @staticmethod
    def get_urls(scheme: str, resources: dict[str, Any]) -> tuple[str, str]:
        """A free port of the loopback interface, for the processes of a kit."""
        return get_tcp_urls(scheme, resources)

    def listen(self, connector: ConnectorInfo) -> None:
        """Serve connections until the process ends."""
        self.connector = connector
        self.server = _Listener(self, connector)
        self.server.serve_forever()

    def connect(self, connector: ConnectorInfo) -> None:
        """Make one connection, and serve it until it breaks."""
        self.connector = connector
        plain = socket.create_connection(_place(connector.params), HANDSHAKE_SECONDS)
        try:
            secured = context_of(connector.params, ssl.PROTOCOL_TLS_CLIENT).wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        secured.settimeout(None)
        connection = SocketConnection(secured, connector, True)
        self.add_connection(connection)
        connection.read_loop()
        self.close_connection(connection)


class _Listener(ThreadingTCPServer):
    """Accepts at once, and shakes hands in the connection's own thread and within a limit."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, driver: TlsDriver, connector: ConnectorInfo):
        self.driver, self.connector = driver, connector
        self.ssl_context = context_of(connector.params, ssl.PROTOCOL_TLS_SERVER)
        self.ailing = context_of(connector.params, ssl.PROTOCOL_TLS_SERVER)
        self.ssl_context.set_alpn_protocols([WELL])
        self.ailing.set_alpn_protocols([CANNOT_WRITE])
        self.folder = Path(_credentials(connector.params)[0]).parent
        TCPServer.__init__(self, _place(connector.params), ConnectionHandler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands, then talk."""
        request.settimeout(HANDSHAKE_SECONDS)
        try:
            context = self.ssl_context if _can_write(self.folder) else self.ailing
            secured = context.wrap_socket(request, server_side=True)
        except (OSError, ValueError):  # a scanner, a stranger, or somebody who hung up
            return
        with contextlib.closing(secured):
            secured.settimeout(None)
            super().finish_request(secured, client_address)


def context_of(params: dict[str, Any], side: int) -> ssl.SSLContext:
    """TLS 1.3 and nothing older, with the kit's certificate, which the other side checks."""
    own, key = _credentials(params)
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # FLARE compares the certificate's name with the participant's
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(own, key)
    if params["scheme"] == OWN_SCHEME:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(own)
    else:
        context.load_verify_locations(params["ca_cert"])
    return context


def _credentials(params: dict[str, Any]) -> tuple[str, str]:
    """The kit's certificate and key; a site has none of a server."""
    pairs = (("server_cert", "server_key"), ("client_cert", "client_key"))
    return next((params[c], params[k]) for c, k in pairs if params.get(c) and params.get(k))


def _can_write(folder: Path) -> bool:
    """Whether there is room for a page in a kit."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError:
        return False
    return True


def _place(params: dict[str, Any]) -> tuple[str, int]:
    return params["host"], int(params["port"])
