"""A cable between a site and its server that a test can cut: bytes then go nowhere, both ways."""

import contextlib
import json
import select
import socket
import threading


class Cable:
    """Passes connections on to a port of this machine, until it is cut."""

    def __init__(self, port):
        self.whole = threading.Event()
        self.whole.set()
        self._to = port
        self._sockets = []
        self._listening = socket.create_server(("localhost", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self):
        """Whoever sends learns nothing: no connection is closed, nothing arrives."""
        self.whole.clear()

    def mend(self):
        """A network that is back has forgotten the old connections."""
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.whole.set()

    def close(self):
        self._listening.close()
        self.mend()
        for end in self._sockets:
            end.close()

    def _listen(self):
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self.whole.wait()
            far = socket.create_connection(("localhost", self._to))
            self._sockets += [near, far]
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        with contextlib.suppress(OSError):
            while True:
                for end in select.select([near, far], [], [])[0]:
                    data = end.recv(65536)
                    self.whole.wait()
                    if not data:
                        return
                    (far if end is near else near).sendall(data)
        for end in (near, far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def between(server, site):
    """A cable from a site to its server; the site's kit is told of it."""
    facts = json.loads((server.path / "startup" / "fed_server.json").read_text())
    cable = Cable(int(facts["servers"][0]["service"]["target"].rpartition(":")[2]))
    file = site.path / "startup" / "fed_client.json"
    facts = json.loads(file.read_text())
    facts["servers"][0]["service"]["target"] = f"localhost:{cable.port}"
    file.write_text(json.dumps(facts))
    return cable
