"""What all tests share."""

import os
import signal
from pathlib import Path

import jax
import pytest

# Tests compile thousands of tiny programs; keeping them on disk makes the second run quick.
os.environ.setdefault("FEDLOOM_CACHE", str(Path(__file__).parent / ".cache"))
# Compiling takes most of a test run's time, and tiny programs gain nothing from optimisation. XLA
# ends the process where it does not know a flag, so only the versions that are known to get them.
if jax.__version__.startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true",
    )
# A job in the background of a shell ignores Ctrl-C, and tests of Ctrl-C would with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
_MANY_MAPPINGS = 30_000  # Linux allows a process 65,530, and every compiled program takes several


def pytest_runtest_logfinish(nodeid, location):
    """Let go of compiled programs before there are more than the system lets a process map."""
    pytest_runtest_logfinish.ended += 1
    if pytest_runtest_logfinish.ended % 20 == 0:
        maps = Path("/proc/self/maps")
        if maps.exists() and maps.read_bytes().count(b"\n") > _MANY_MAPPINGS:
            jax.clear_caches()


pytest_runtest_logfinish.ended = 0


@pytest.fixture
def double():
    """Double precision."""
    with jax.enable_x64(True):
        yield


def data_folder() -> Path | None:
    """The folder of local copies of public datasets, where there is one."""
    named = os.environ.get("FEDLOOM_DATA")
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(named) if named else beside
    return folder if folder.is_dir() else None
