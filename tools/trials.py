"""Trials of mutants: a process forks for each, loads the mistaken module, and runs some tests.

The process imports what fedloom stands on, never fedloom itself, and forks before JAX has computed
anything or started a thread. Which tests call which function is found once, by running them.
"""

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tools.mutants import Mutant

HERE = Path(__file__).parents[1]
PACKAGE = HERE / "src" / "fedloom"
BASELINES = HERE / ".mutate"
_IMPORTED_ONCE = ("jax", "jax.numpy", "optax", "scipy.optimize", "sklearn", "polars", "safetensors")
_SHORT = "not (a9a or adult or figure or published)"  # tests on real data take minutes
_QUIET = ["-p", "no:cacheprovider", "--tb=no"]
_AT_LEAST, _TIMES_LONGER = 20.0, 4.0  # seconds that a mutant gets, and of what its tests took
_LONGEST = 60.0  # seconds of tests for one mutant

Plan = dict[str, dict[str, Any]]  # of each test, its seconds and the functions that it calls


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from code that is not in its file."""

    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        """The mistaken one."""
        return self.code


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module of the package, with a mistake in it."""

    def __init__(self, mutant: Mutant):
        self.name = ".".join(Path("fedloom", mutant.path).with_suffix("").parts)
        self.loader = _Loader(self.name, str(PACKAGE / mutant.path))
        self.loader.code = compile(
            mutant.source(PACKAGE), self.loader.path, "exec", dont_inherit=True
        )

    def find_spec(self, fullname: str, path: object, target: object = None) -> Any:
        """Leaves all other modules to others."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.loader.path, loader=self.loader
        )


class _Failures:
    """A plugin of pytest that remembers the first failure."""

    first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of a test."""
        if report.failed and not self.first:
            self.first = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Of a file of tests that cannot be imported."""
        if report.failed and not self.first:
            self.first = f"import of {report.nodeid}"


class _Calls:
    """A plugin of pytest that notes which functions a test calls, and how long it takes."""

    def __init__(self) -> None:
        self.plan: Plan = {}
        self._seen: set[tuple[str, int]] = set()

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        """Called at each call; that it returns nothing spares a call for each line."""
        self._seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Watch a test; programs that earlier ones have compiled would hide what it calls."""
        importlib.import_module("jax").clear_caches()
        self._seen.clear()
        start = time.monotonic()
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            calls = [
                f"{Path(file).relative_to(PACKAGE)}:{line}"
                for file, line in sorted(self._seen)
                if file.startswith(str(PACKAGE))
            ]
            seconds = round(time.monotonic() - start, 2)
            self.plan[item.nodeid] = {"seconds": seconds, "calls": calls}


def warm_up() -> None:
    """Import what every trial needs."""
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)


def in_a_fork(job: Callable[[], Any], limit: float) -> Any:
    """What a job returns in a forked process; None when it ran out of time or died."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        pid = os.fork()
        if pid == 0:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            try:
                answer.write_text(json.dumps(job()))
            finally:
                os._exit(0)
        until = time.monotonic() + limit
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
            time.sleep(0.02)
        return json.loads(answer.read_text()) if answer.exists() else None


def baseline(test: str) -> Plan:
    """What each test of a file calls, and for how long; kept until the file or the code changes."""
    digest = hashlib.sha256((HERE / "tests" / test).read_bytes())
    for source in sorted(PACKAGE.rglob("*.py")):
        digest.update(source.read_bytes())
    kept = BASELINES / f"{test.replace('/', '-')}-{digest.hexdigest()[:12]}.json"
    if not kept.exists():

        def watched() -> Plan:
            calls = _Calls()
            code = pytest.main([f"tests/{test}", "-k", _SHORT, *_QUIET], [calls])
            return {} if code else calls.plan

        print(f"what does tests/{test} call?", flush=True)
        found = in_a_fork(watched, limit=1800)
        if not found:
            raise SystemExit(f"tests/{test} must pass before its tests can be tried on mutants")
        BASELINES.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
    plan: Plan = json.loads(kept.read_text())
    return plan


def tests_for(mutant: Mutant, files: list[str]) -> dict[str, float]:
    """The tests that call what is mistaken, with their seconds, the quickest first.

    What runs while a module is imported is left to all tests that call anything in the file.
    """
    plans = {test: seen for file in files for test, seen in baseline(file).items()}
    function, anything = f"{mutant.path}:{mutant.function}", f"{mutant.path}:"
    able = {t: s["seconds"] for t, s in plans.items() if function in s["calls"]} or {
        t: s["seconds"] for t, s in plans.items() if any(c.startswith(anything) for c in s["calls"])
    }
    chosen: dict[str, float] = {}
    for test, seconds in sorted(able.items(), key=lambda pair: pair[1]):
        if chosen and sum(chosen.values()) + seconds > _LONGEST:
            break
        chosen[test] = seconds
    return chosen


def attempt(mutant: Mutant, files: list[str]) -> dict[str, Any]:
    """Try the tests of some files on a mutant; tells whether, and by what, it was killed."""
    tests, start = tests_for(mutant, files), time.monotonic()

    def trial() -> str:
        sys.meta_path.insert(0, _Finder(mutant))
        failures = _Failures()
        code = pytest.main([*tests, "-x", *_QUIET], [failures])
        return failures.first or ("" if code == pytest.ExitCode.OK else "import")

    killer = in_a_fork(trial, _AT_LEAST + _TIMES_LONGER * sum(tests.values())) if tests else ""
    return {
        "id": mutant.id,
        "path": mutant.path,
        "line": mutant.line,
        "original": mutant.original,
        "replacement": mutant.replacement,
        "killed": killer != "",
        "by": "time" if killer is None else killer,
        "tests": len(tests),
        "seconds": round(time.monotonic() - start, 1),
    }
