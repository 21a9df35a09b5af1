"""What all tests share."""

import ctypes
import functools
import gc
import os
import re
import resource
import signal
import sys
from pathlib import Path

import jax
import psutil
import pytest

# Tests compile thousands of tiny programs; keeping them on disk makes the second run quick.
# Simulations do so by themselves, for as long as they run; here JAX is told to do so always.
os.environ.setdefault("FEDLOOM_CACHE", str(Path(__file__).parent / ".cache"))
if os.environ["FEDLOOM_CACHE"] != "off":
    jax.config.update("jax_compilation_cache_dir", f"{os.environ['FEDLOOM_CACHE']}/programs")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.005)
# Compiling takes most of a test run's time, and tiny programs gain nothing from optimisation. XLA
# ends the process where it does not know a flag, so a version gets those that it is known to take.
_FLAGS = {
    "0.10": " --xla_cpu_use_fusion_emitters=false",  # halves the time; 0.12 has one emitter only
    "0.11": "",
    "0.12": "",
}
_VERSION = ".".join(jax.__version__.split(".")[:2])
if _VERSION in _FLAGS:
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true" + _FLAGS[_VERSION],
    )
# Where an operation stands in the source costs a twelfth of the time, and only profilers read it.
jax.config.update("jax_traceback_in_locations_limit", 0)
# Tracing makes many small objects that stay; looking for cycles among them as often as Python does
# takes about 6 per cent of the time.
gc.set_threshold(100_000, 20, 50)
# A job in the background of a shell ignores Ctrl-C, and tests of Ctrl-C would with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
_MUCH_MEMORY = 900_000_000  # bytes; a test may add half of another GB, and a worker has 2 GB
_GROWTH = 300_000_000
_held = 0  # by this worker, after it last let go of its programs
_SMALL = {"laws": 1, "core": 2, "data": 3}  # folders with groups of a few seconds each
# Modules in which every method is explained: what one of them has found out, the others know.
_EXPLAINED = ("tests/test_docs.py", "tests/cli/test_commands.py", "tests/cli/test_minimax.py")
_peaks = pytest.StashKey[list[int]]()  # the most that each worker held


def _group(nodeid):
    """Tests that share programs or fixtures: of a module, of a method, or of what is explained.

    They run one after the other, and all on one worker.
    """
    module, _, name = nodeid.partition("::")
    if module in _EXPLAINED:
        return "explained"
    method = re.search(r"\[(\w+)\]", name) if "/laws/" in module else None
    return f"laws of {method[1]}" if method else module


def pytest_collection_modifyitems(items):
    """Put small groups last: no worker has a large one to do when the others are done."""
    groups = {}
    for item in items:
        groups.setdefault(_group(item.nodeid), []).append(item)
    order = sorted(groups.values(), key=lambda group: _SMALL.get(group[0].path.parent.name, 0))
    items[:] = [item for group in order for item in group]


def pytest_collection_finish(session):
    """Modules and tests stay for the whole run: no search for garbage need pass over them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out whole groups. Marks for that (`loadgroup`) do nothing under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _group(nodeid)

    config.option.loadscopereorder = False  # the order is ours
    return ByGroup(config, log)


def pytest_runtest_logfinish(nodeid, location):
    """Let go of compiled programs, a few MB each, before there are too many of them.

    What a worker holds besides grows too, so that what counts is what came since the last time:
    who lets go after every test compiles every program again.
    """
    global _held
    if psutil.Process().memory_info().rss > max(_MUCH_MEMORY, _held + _GROWTH):
        jax.clear_caches()
        gc.collect()
        # What was freed lies between what was not, and goes back to the system by this call only.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        _held = psutil.Process().memory_info().rss


def pytest_configure(config):
    config.stash[_peaks] = []


def pytest_sessionfinish(session):
    """Say how much memory this process held, or tell the one that reports."""
    unit = 1 if sys.platform == "darwin" else 1 << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = peak
    elif not session.config.stash[_peaks]:
        session.config.stash[_peaks].append(peak)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    if error is None:
        node.config.stash[_peaks].append(node.workeroutput["peak"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    """Say last what is not to be overlooked: that there was no browser, and what memory it took."""
    result = yield
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    for reason in sorted({reason for reason in reasons if "no browser" in reason}):
        terminalreporter.write_line(f"The page was NOT tested in a browser. {reason}", yellow=True)
    peaks = ", ".join(f"{peak / 1e9:.2f}" for peak in config.stash[_peaks])
    terminalreporter.write_line(f"Most memory that each worker held, in GB: {peaks}")
    return result


@pytest.fixture
def double():
    """Double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def described_once():
    """Commands and pages show one description of each method, whose making takes half a second."""
    from fedloom.cli import explain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain, "describe", functools.cache(explain.describe))
        yield


def data_folder() -> Path | None:
    """The folder of local copies of public datasets, where there is one."""
    named = os.environ.get("FEDLOOM_DATA")
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(named) if named else beside
    return folder if folder.is_dir() else None
