"""A server's door without FLARE behind it: it shakes hands by a kit, then listens in silence."""

import contextlib
import json
import threading
from socketserver import BaseRequestHandler
from types import SimpleNamespace

from fedloom.federation.people.trial import free_port
from fedloom.federation.tls import OWN_SCHEME, SCHEME, _Listener


class _Silence(BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            while self.request.recv(1024):
                pass


def params(kit, port, scheme=SCHEME):
    """What FLARE tells its driver."""
    startup, side = kit.path / "startup", "server" if kit.role == "server" else "client"
    return {
        "scheme": scheme,
        "host": "127.0.0.1",
        "port": str(port),
        "ca_cert": str(startup / "rootCA.pem"),
        f"{side}_cert": str(startup / f"{side}.crt"),
        f"{side}_key": str(startup / f"{side}.key"),
    }


@contextlib.contextmanager
def door(kit, port=None, scheme=SCHEME):
    """Listens for as long as the block lasts; gives the port."""
    port = port or free_port()
    server = _Listener(None, SimpleNamespace(params=params(kit, port, scheme)))
    server.RequestHandlerClass = _Silence
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def own_door(kit):
    """The door at which a site's own processes knock."""
    with door(kit, scheme=OWN_SCHEME) as port:
        yield port


def lead_to(kit, port):
    """Tell a kit that its server is at this port."""
    names = {"server": "fed_server.json", "site": "fed_client.json", "person": "fed_admin.json"}
    file = kit.path / "startup" / names[kit.role]
    facts = json.loads(file.read_text())
    if kit.role == "person":
        facts["admin"]["port"] = port
    else:
        facts["servers"][0]["service"]["target"] = f"localhost:{port}"
    file.write_text(json.dumps(facts))
