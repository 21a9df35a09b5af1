"""The processes behind a kit: what its owner settles before they start, how they start and stop."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedloom.engines.flare.job import CLASSES
from fedloom.engines.flare.kits import Kit
from fedloom.errors import FederationError
from fedloom.files import write_text
from fedloom.hints import needs

CONSOLE = "console.txt"
# FLARE starts a timer thread for every reply, which lives as long as both together: by default 65
# seconds, thousands of threads. The time is the window in which a lost packet is sent again.
_STREAMING = {"streaming_retry_timeout": 2.0, "streaming_retry_wait": 1.0}
# Nobody may send code or look into files. Who leads runs may submit, follow, end and fetch them.
_LEADS = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate", "app_command")
_CLOSED = {"byoc": "none", "shell_commands": "none"}
RIGHTS = {
    "project_admin": {**dict.fromkeys(_LEADS, "any"), **_CLOSED},
    "org_admin": {"manage_job": "o:submitter", "view": "any", "operate": "o:site", **_CLOSED},
    "lead": {**dict.fromkeys(_LEADS, "any"), "manage_job": "n:submitter", **_CLOSED},
    "member": {"view": "any", "app_command": "any", **_CLOSED},
}
_SILENT_SECONDS = 30  # after which the server no longer counts a silent site as connected
_MODULES = {
    "server": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}


def settle(kit: Kit) -> None:
    """Write FLARE's local settings: no shipped code, only fedloom's classes, files in the kit."""
    local = kit.path / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources["class_allow_list"] = list(CLASSES)
    if kit.role == "site":
        # A site's log may tell of its data, so it stays there.
        resources["allow_log_streaming"] = False
        parts = resources["components"]
        resources["components"] = [part for part in parts if part["id"] != "site_log_streamer"]
    if kit.role == "server":
        _listen_strictly(kit)
        for server in resources["servers"]:
            server["heart_beat_timeout"] = _SILENT_SECONDS
        storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
        storage["root_dir"] = str(kit.path / "snapshots")
        for component in resources["components"]:
            if component["id"] == "job_manager":
                component["args"]["uri_root"] = str(kit.path / "jobs")
            elif component["id"] == "job_scheduler":
                component["args"]["max_jobs"] = 1
    logs = json.loads((local / "log_config.json.default").read_text(encoding="utf-8"))
    logs["loggers"]["root"]["level"] = "WARNING"
    logs["loggers"]["fedloom"] = {"level": "INFO"}
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", {"format_version": "1.0", "permissions": RIGHTS})
    _write(local / "log_config.json", logs)
    _write(local / "comm_config.json", {"format_version": 2, **_STREAMING, **_network()})


def start(kit: Kit) -> "subprocess.Popen[bytes]":
    """Start the process of a server or a site; FLARE starts others from it for each job."""
    needs("nvflare", "federate")
    settle(kit)
    module, file = _MODULES[kit.role]
    own = [f"uid={kit.name}"] if kit.role == "site" else []
    command = [
        *(sys.executable, "-u", "-m", module, "-m", str(kit.path), "-s", file),
        *("--set", "secure_train=true", *own, f"org={kit.organisation}", "config_folder=config"),
    ]
    (kit.path / "transfer").mkdir(exist_ok=True)
    console_file = os.open(kit.path / CONSOLE, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    with open(console_file, "ab") as console:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            cwd=kit.path,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "4"},
            start_new_session=True,
            umask=0o077,  # what FLARE writes in a kit is its owner's alone
        )


def processes_of(kit: Kit) -> list[Any]:
    """All processes that work in a kit's folder: the first one, and those of its jobs."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline"]):
        arguments = process.info["cmdline"] or []
        if process.pid != os.getpid() and "-m" in arguments and str(kit.path) in arguments:
            found.append(process)
    return found


def stop(kit: Kit, patience: float = 3.0) -> None:
    """End a kit's processes: ask first, then insist."""
    import psutil

    found = processes_of(kit)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(found, timeout=patience)
    for process in processes_of(kit):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(found, timeout=patience)


@contextlib.contextmanager
def running(*kits: Kit) -> Iterator[None]:
    """Servers and sites that run as long as the block does."""
    started = []
    try:
        for kit in kits:
            started.append(start(kit))
            if kit.role == "server":
                await_port(kit)
        yield
    finally:
        for kit in reversed(kits):
            stop(kit)
        for process in started:
            process.wait()


def await_port(kit: Kit, seconds: float = 120.0) -> None:
    """Wait until a server answers at its port."""
    import socket

    facts = json.loads((kit.path / "startup" / "fed_server.json").read_text(encoding="utf-8"))
    port = int(facts["servers"][0]["service"]["target"].rpartition(":")[2])
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
            return
        time.sleep(0.1)
    raise FederationError(
        f"the server did not open port {port} within {seconds:g} s. {kit.path / CONSOLE} says why."
    )


def _listen_strictly(kit: Kit) -> None:
    """Let the server listen by our own driver; resources.json cannot say so."""
    from fedloom.engines.flare.tls import SCHEME

    file = kit.path / "startup" / "fed_server.json"
    facts = json.loads(file.read_text(encoding="utf-8"))
    for server in facts["servers"]:
        server["service"]["scheme"] = SCHEME
    _write(file, facts)


def _network() -> dict[str, Any]:
    """Our own driver, also for what the processes of this host say to one another."""
    from fedloom.engines.flare.tls import DRIVERS, OWN_SCHEME

    own = {"scheme": OWN_SCHEME, "resources": {"host": "localhost"}}
    return {"comm_driver_path": str(DRIVERS), "internal": own, "allow_adhoc_conns": False}


def _write(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
