"""Trials of mutants: a process forks for each, loads the mistaken module, and runs some tests.

The process imports what fedloom stands on, never fedloom itself, and forks before JAX has computed
anything or started a thread. Which tests call which function is found once, by running them.
"""

import functools
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tools.mutants import Mutant

HERE = Path(__file__).parents[1]
PACKAGE = HERE / "src" / "fedloom"
BASELINES = HERE / ".mutate"
_IMPORTED_ONCE = ("jax", "jax.numpy", "optax", "scipy.optimize", "sklearn", "safetensors")
_SHORT = "not (a9a or adult or figure or published)"  # tests on real data take minutes
_QUIET = ["-p", "no:cacheprovider", "--tb=no"]
_AT_LEAST, _TIMES_LONGER = 20.0, 4.0  # seconds that a mutant gets, and of what its tests took
_LONGEST = 60.0  # seconds of tests for one mutant
_LONGEST_BASELINE = 1800.0  # seconds to find out what the tests of a file call

Plan = dict[str, dict[str, Any]]  # of each test, its seconds and the functions that it calls
Job = Callable[[], Any]


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


class _Fork:
    """A job in a forked process, with the seconds that it may take."""

    def __init__(self, job: Job, limit: float):
        self._folder = tempfile.TemporaryDirectory()
        self._answer = Path(self._folder.name, "answer")
        self._start, self._limit = time.monotonic(), limit
        self._pid = os.fork()
        if self._pid == 0:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            try:
                self._answer.write_text(json.dumps(job()))
            finally:
                os._exit(0)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return round(time.monotonic() - self._start, 1)

    def ended(self) -> bool:
        """Whether it is done, died, or had to be ended because its time was up."""
        if os.waitpid(self._pid, os.WNOHANG) != (0, 0):
            return True
        if self.seconds <= self._limit:
            return False
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        return True

    def answer(self) -> Any:
        """What it returned; None when it ran out of time or died."""
        with self._folder:
            return json.loads(self._answer.read_text()) if self._answer.exists() else None


def in_forks(jobs: Iterable[tuple[Job, float]], at_once: int) -> Iterator[tuple[int, Any, float]]:
    """Number, answer and seconds of each job, in the order in which they end."""
    waiting, running = enumerate(jobs), dict[int, _Fork]()
    while True:
        while len(running) < at_once and (following := next(waiting, None)) is not None:
            number, (job, limit) = following
            running[number] = _Fork(job, limit)
        if not running:
            return
        time.sleep(0.02)
        for number in [number for number, fork in running.items() if fork.ended()]:
            fork = running.pop(number)
            yield number, fork.answer(), fork.seconds


def baselines(tests: list[str], at_once: int) -> Plan:
    """What each test of some files calls, and for how long; kept until a file or code changes."""
    code = hashlib.sha256()
    for source in sorted(PACKAGE.rglob("*.py")):
        code.update(source.read_bytes())
    kept = {}
    for test in tests:
        digest = code.copy()
        digest.update((HERE / "tests" / test).read_bytes())
        kept[test] = BASELINES / f"{test.replace('/', '-')}-{digest.hexdigest()[:12]}.json"
    unknown = [test for test in tests if not kept[test].exists()]
    for test in unknown:
        print(f"what does tests/{test} call?", flush=True)
    jobs = [(functools.partial(_calls_of, test), _LONGEST_BASELINE) for test in unknown]
    for number, found, _ in in_forks(jobs, at_once):
        if not found:
            raise SystemExit(
                f"tests/{unknown[number]} must pass before its tests can be tried on mutants"
            )
        BASELINES.mkdir(exist_ok=True)
        kept[unknown[number]].write_text(json.dumps(found))
    plan: Plan = {}
    for path in kept.values():
        plan |= json.loads(path.read_text())
    return plan


def _calls_of(test: str) -> Plan:
    calls = _Calls()
    code = pytest.main([f"tests/{test}", "-k", _SHORT, *_QUIET], [calls])
    return {} if code else calls.plan


def tests_for(mutant: Mutant, files: list[str], plans: Plan) -> dict[str, float]:
    """The tests that call what is mistaken, with their seconds, the quickest first.

    What runs while a module is imported is left to all tests that call anything in the file.
    """
    own = tuple(f"tests/{file}::" for file in files)
    plans = {test: seen for test, seen in plans.items() if test.startswith(own)}
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


def attempts(
    mutants: list[Mutant], files: Callable[[str], list[str]], at_once: int
) -> Iterator[dict[str, Any]]:
    """Try tests on mutants; tells of each whether, and by what, it was killed."""
    needed = {file: None for mutant in mutants for file in files(mutant.path)}
    plans = baselines(list(needed), at_once)
    chosen = [tests_for(mutant, files(mutant.path), plans) for mutant in mutants]
    jobs = [
        (functools.partial(_trial, mutant, tests), _AT_LEAST + _TIMES_LONGER * sum(tests.values()))
        for mutant, tests in zip(mutants, chosen, strict=True)
    ]
    for number, killer, seconds in in_forks(jobs, at_once):
        mutant = mutants[number]
        yield {
            "id": mutant.id,
            "path": mutant.path,
            "line": mutant.line,
            "original": mutant.original,
            "replacement": mutant.replacement,
            "killed": killer != "",
            "by": "time" if killer is None else killer,
            "tests": len(chosen[number]),
            "seconds": seconds,
        }


def _trial(mutant: Mutant, tests: dict[str, float]) -> str:
    """What kills a mutant; nothing where no test does."""
    if not tests:
        return ""
    sys.meta_path.insert(0, _Finder(mutant))
    failures = _Failures()
    code = pytest.main([*tests, "-x", *_QUIET], [failures])
    return failures.first or ("" if code == pytest.ExitCode.OK else "import")
