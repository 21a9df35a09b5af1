"""Two processes on this machine that compute together."""

import os
import socket
import subprocess
import sys
import textwrap


def both(program, folder):
    """Run a program in two processes, with its index, a port and the folder; what they printed."""
    (folder / "both.py").write_text(textwrap.dedent(program))
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    port, pipe = str(_free_port()), subprocess.PIPE
    processes = [
        subprocess.Popen(
            [sys.executable, folder / "both.py", str(i), port, folder],
            stdout=pipe, stderr=pipe, text=True, env=environment,
        )
        for i in range(2)
    ]  # fmt: skip
    try:
        printed = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], printed
    return printed


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
