"""What all tests share."""

import ctypes
import gc
import os
import signal
from pathlib import Path

import jax
import psutil
import pytest

# Tests compile thousands of tiny programs; keeping them on disk makes the second run quick.
os.environ.setdefault("FEDLOOM_CACHE", str(Path(__file__).parent / ".cache"))
# Compiling takes most of a test run's time, and tiny programs gain nothing from optimisation. XLA
# ends the process where it does not know a flag, so a version gets those that it is known to take.
_FLAGS = {
    "0.10": " --xla_cpu_use_fusion_emitters=false",  # halves the time; later versions have no other
    "0.12": "",
}
_VERSION = ".".join(jax.__version__.split(".")[:2])
if _VERSION in _FLAGS:
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true" + _FLAGS[_VERSION],
    )
# A job in the background of a shell ignores Ctrl-C, and tests of Ctrl-C would with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
_MUCH_MEMORY = 1 << 30  # bytes; a worker shall stay below twice as much


def pytest_runtest_logfinish(nodeid, location):
    """Let go of compiled programs, a few MB each, before there are too many of them."""
    if psutil.Process().memory_info().rss > _MUCH_MEMORY:
        jax.clear_caches()
        gc.collect()
        # What was freed lies between what was not, and goes back to the system by this call only.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


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
