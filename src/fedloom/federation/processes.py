"""The processes of a kit: the settings of FLARE for them, and how they start and stop."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedloom.errors import FederationError
from fedloom.federation.abandoned import end_abandoned
from fedloom.federation.job_files import CLASSES
from fedloom.federation.kits import Kit
from fedloom.federation.locks import held
from fedloom.federation.reaching import address
from fedloom.files import write_text
from fedloom.hints import needs

CONSOLE = "console.txt"
# FLARE starts a timer thread for every reply, which lives as long as both together: by default 65
# seconds, thousands of threads. The time is the window in which a lost packet is sent again.
_STREAMING = {"streaming_retry_timeout": 2.0, "streaming_retry_wait": 1.0}
# Nobody may send code or look into files. Who leads runs may submit them, see that others run, and
# follow, end and fetch their own: by `app_command` a run tells metrics, and a result has the model.
_LEADS = {
    **dict.fromkeys(("submit_job", "view"), "any"),
    **dict.fromkeys(("manage_job", "download_job", "app_command"), "n:submitter"),
}
_CLOSED = {"byoc": "none", "shell_commands": "none", "clone_job": "none"}
RIGHTS = {
    "project_admin": {**_LEADS, **dict.fromkeys(("manage_job", "operate"), "any"), **_CLOSED},
    "org_admin": {"manage_job": "o:submitter", "view": "any", "operate": "o:site", **_CLOSED},
    "lead": {**_LEADS, **_CLOSED},
    "member": {"view": "any", **_CLOSED},
}
_REGISTRAR = "nvflare.private.fed.client.fed_client.FederatedClient"  # it says, at level INFO,
_REGISTERED = b"Successfully registered client"  # when the server has taken a site in
_SILENT_SECONDS = 30  # after which the server no longer counts a silent site as connected
# Nothing is imported from the folder in which a process works, where FLARE puts folders of jobs.
_SURROUNDINGS = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "4"}
_MODULES = {
    "server": ("fedloom.federation.server.process", "fed_server.json"),
    "site": ("fedloom.federation.site.process", "fed_client.json"),
}


def settle(kit: Kit) -> None:
    """Write FLARE's local settings: no code from jobs, only fedloom's classes, files in the kit."""
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
    logs["loggers"][_REGISTRAR] = {"level": "INFO"}
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", {"format_version": "1.0", "permissions": RIGHTS})
    _write(local / "log_config.json", logs)
    _write(local / "comm_config.json", {"format_version": 2, **_STREAMING, **_network()})


def start(kit: Kit) -> "subprocess.Popen[bytes]":
    """Start the process of a server or a site; FLARE starts others from it for each job."""
    needs("nvflare", "federate")
    settle(kit)
    if kit.role == "server":
        check_port(kit)
        end_abandoned(kit)
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
            env=os.environ | _SURROUNDINGS,
            start_new_session=True,
            umask=0o077,  # what FLARE writes in a kit is its owner's alone
        )


def processes_of(kit: Kit) -> list[Any]:
    """All processes that work in a kit's folder: the first one, and those of its jobs."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline"]):
        arguments = process.info["cmdline"] or []
        if ("-m", str(kit.path)) in itertools.pairwise(arguments):
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
    with contextlib.ExitStack() as locks:
        for kit in kits:
            locks.enter_context(held(kit))
        try:
            for kit in kits:
                started.append(start(kit))
                if kit.role == "server":
                    await_listening(kit, started[-1])
            yield
        finally:
            for kit in reversed(kits):
                stop(kit)
            for process in started:
                process.wait()


def check_port(kit: Kit) -> None:
    """Refuse to start a server whose port is taken: FLARE would go on without it."""
    _, port = address(kit)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise FederationError(
                f"the server cannot have port {port}: {error.strerror}. Stop what uses it, or give "
                f"the project another port and provision it anew."
            ) from error


def await_listening(kit: Kit, process: "subprocess.Popen[bytes]", seconds: float = 120.0) -> None:
    """Wait until the server that was started listens at its port."""
    import psutil

    _, port = address(kit)

    def listens() -> bool:
        open_here = psutil.Process(process.pid).net_connections("tcp")
        return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in open_here)

    _await(kit, process, listens, seconds, f"did not open port {port}")


def await_registered(
    kit: Kit, process: "subprocess.Popen[bytes]", written: int, seconds: float = 60.0
) -> None:
    """Wait until the server has taken a site in; `written` was there in its log before."""

    def registered() -> bool:
        with open(kit.path / CONSOLE, "rb") as console:
            console.seek(written)
            return _REGISTERED in console.read()

    _await(kit, process, registered, seconds, "was not taken in by the server")


def _await(
    kit: Kit,
    process: "subprocess.Popen[bytes]",
    done: Callable[[], bool],
    seconds: float,
    complaint: str,
) -> None:
    until = time.monotonic() + seconds
    while True:
        check_alive(kit, process)
        with contextlib.suppress(Exception):  # psutil has many ways to say that a process is gone
            if done():
                return
        if time.monotonic() > until:
            raise FederationError(
                f"{kit.name} {complaint} within {seconds:g} s. {kit.path / CONSOLE} says why."
            )
        time.sleep(0.1)


def check_alive(kit: Kit, process: "subprocess.Popen[bytes]") -> None:
    """Raise where the process of a kit has ended by itself."""
    if process.poll() is not None:
        raise FederationError(
            f"the process of {kit.name} ended by itself with status {process.returncode}. "
            f"{kit.path / CONSOLE} says why."
        )


def log_size(kit: Kit) -> int:
    """How much a kit's log holds."""
    file = kit.path / CONSOLE
    return file.stat().st_size if file.exists() else 0


def _listen_strictly(kit: Kit) -> None:
    """Let the server listen by our own driver; resources.json cannot say so."""
    from fedloom.federation.tls import SCHEME

    file = kit.path / "startup" / "fed_server.json"
    facts = json.loads(file.read_text(encoding="utf-8"))
    for server in facts["servers"]:
        server["service"]["scheme"] = SCHEME
    _write(file, facts)


def _network() -> dict[str, Any]:
    """Our own driver, also for what the processes of this host say to one another."""
    from fedloom.federation.tls import DRIVERS, OWN_SCHEME

    own = {"scheme": OWN_SCHEME, "resources": {"host": "localhost"}}
    return {"comm_driver_path": str(DRIVERS), "internal": own, "allow_adhoc_conns": False}


def _write(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
