"""`make verify` finds what is planted: a method that differs, look-alikes, unequal processes."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.exchange.site import Site
from tools import repeated
from verification import compiler, fresh, processes, search
from verification.cases import Case, OfRows
from verification.drawing import cases
from verification.listings import LISTINGS
from verification.look_alikes import look_alikes, pytree_classes

ROOT = Path(__file__).parents[1]
CASE = Case(
    key="fedavg",
    method=fl.algorithms.FedAvg(lr=0.1, local_steps=2, cohort=2),
    problem=fl.problems.Logistic(l2=0.1),
    data=OfRows(sizes=(4, 6), width=2, classes=2, seed=0),
    listed=True,
)


def test_a_sound_case_agrees_everywhere():
    outcome = search.examine(CASE)
    assert outcome.error is None and outcome.passed == ("again", "resume", "wire", "listing")


def test_a_wire_engine_that_differs_is_reported_as_a_program_that_runs(monkeypatch):
    right = Site.answer
    wrong = lambda site, letter: jax.tree.map(lambda v: v + 1e-9, right(site, letter))  # noqa: E731
    monkeypatch.setattr(Site, "answer", wrong)
    # One draw is enough to see it; a smaller one is not looked for.
    monkeypatch.setattr(search, "SHRINK_SECONDS", 0.0)
    monkeypatch.setattr(search, "cases", lambda key: strategies.just(CASE))
    visit = search.Visit("fedavg", 0).run()
    assert visit.smallest.error.check == "wire" and "hub model" in str(visit.smallest.error)
    program = visit.smallest.case.snippet("wire")
    assert "replay(case, only='wire')" in program
    names = {}
    begin = program.index("from verification")  # this process has its devices already
    exec(program[begin : program.index("replay(case")], names)
    assert names["case"] == CASE


def test_a_method_that_departs_from_its_listing_is_found(monkeypatch):
    right = fl.algorithms.FedAvg.train

    def train(*given):
        return jax.tree.map(lambda change: change / 2, right(*given))

    monkeypatch.setattr(fl.algorithms.FedAvg, "train", train)
    # Another number of rows, for which no program has been compiled yet.
    outcome = search.examine(
        dataclasses.replace(CASE, data=CASE.data._replace(sizes=(4, 7))), ["listing"]
    )
    assert outcome.error.check == "listing"


def test_classes_that_jax_cannot_tell_apart_are_found():
    def registered_plainly():
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass
        class LookAlike:
            x: float

        return LookAlike

    one, other = registered_plainly(), registered_plainly()
    assert look_alikes([one, other]) == [(one, other)]
    ours = pytree_classes()
    assert {entry.cls for entry in CATALOGUE.values()} <= set(ours)
    assert look_alikes(ours) == []


def test_processes_that_disagree_are_told_with_their_orders():
    a, b = "a" * 64, "b" * 64
    ran = [
        processes.Ran(("x:wire", "y:wire"), "empty", {"x:wire": a, "y:wire": a}),
        processes.Ran(("y:wire", "x:wire"), "filled", {"x:wire": b, "y:wire": a}),
    ]
    (difference,) = processes.differences(ran)
    assert difference.program == "x:wire"
    assert f"{b}\n    filled cache: y:wire x:wire" in str(difference)
    assert processes.differences(ran[:1]) == []


def test_a_process_that_fails_is_a_difference():
    (difference,) = processes.differences(
        [processes.Ran(("no_such:wire",), "empty", processes.fresh(["no_such:wire"], Path("off")))]
    )
    assert "ParameterError" in str(difference)


@pytest.mark.parametrize("last", ["0", "1"])
def test_programs_that_had_their_processes_are_compared_and_not_run_again(
    tmp_path, monkeypatch, last
):
    """Those of another device do not count."""
    asked, out = [], tmp_path / "fresh.jsonl"

    def line(program, digit, device=None):
        ran = processes.Ran((program,), "empty", {program: digit * 64})
        return json.dumps({"device": device or fresh._device(), **ran._asdict()}) + "\n"

    there = [line("fedavg:wire", digit) for digit in ("0", "0", last)]
    out.write_text("".join([*there, *3 * [line("drfa:wire", "2", "another")]]))

    def run_all(programs, count, *_):
        asked.extend(programs)
        return count * [processes.Ran(tuple(programs), "empty", dict.fromkeys(programs, "1" * 64))]

    monkeypatch.setattr(processes, "run_all", run_all)
    command = ["fresh", "--methods", "fedavg", "drfa", "--processes", "3", "--out", str(out)]
    monkeypatch.setattr("sys.argv", command)
    for _ in range(2):
        assert fresh.main() == int(last)
    assert sorted(asked) == ["drfa:simulator", "drfa:wire", "fedavg:simulator"]


def test_every_method_of_the_catalogue_has_a_transcription_to_be_compared_with():
    assert set(LISTINGS) == set(CATALOGUE)


@pytest.mark.parametrize("key", CATALOGUE)
def test_cases_of_every_method_can_be_drawn(key):
    drawn = []
    draw = given(cases(key))(lambda case: drawn.append(case))
    settings(
        max_examples=5, database=None, deadline=None, derandomize=True, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )(draw)()  # fmt: skip
    assert len(drawn) == 5 and {case.key for case in drawn} == {key}


def test_a_compiler_that_goes_wrong_is_found(monkeypatch):
    program = compiler.Mapped("sum of squares", 255, (3, 3), "float64")
    assert compiler.wrong(program) == ""
    monkeypatch.setattr(jax, "jit", lambda f: lambda rows: f(rows).at[7:].set(0.0))
    assert "248 rows are wrong, the first is row 7" in compiler.wrong(program)


@pytest.mark.thorough
def test_the_command_draws_and_starts_processes_however_short_the_time(tmp_path):
    command = [sys.executable, "-m", "verification", "--minutes", "0", "--methods", "vertical_gd"]
    done = subprocess.run(
        [*command, "--seed", "1", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Disagreements: 0" in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    ran = [line for line in lines if line["what"] == "process"]
    assert [line["cache"] for line in ran] == ["empty", "filled"]
    assert len(lines) > len(ran) and not any(line.get("error") for line in lines)


SMALL_SUITE = """
import pytest

def test_right(): pass
def test_wrong(): assert 1 == 2
@pytest.mark.skip(reason="not here")
def test_left(): pass
@pytest.fixture
def broken(): raise OSError("no such thing")
def test_broken(broken): pass
"""


def test_a_repeated_suite_tells_each_outcome(tmp_path, monkeypatch, capfd):
    (tmp_path / "test_small.py").write_text(SMALL_SUITE)
    command = ("-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path))
    monkeypatch.setattr(repeated, "SUITE", command)
    line = repeated.run(empty=True)
    assert (line["passed"], line["skipped"], line["status"]) == (1, 1, 1)
    assert line["failed"] == ["test_small::test_wrong", "test_small::test_broken"]
    told = capfd.readouterr().err
    assert "assert 1 == 2" in told and "no such thing" in told


def test_a_suite_that_does_not_begin_has_failed(monkeypatch):
    monkeypatch.setattr(repeated, "SUITE", ("-c", "raise SystemExit(4)"))
    line = repeated.run(empty=False)
    assert line["failed"] == ["the suite itself"] and line["status"] == 4


def test_what_is_said_of_the_suite_in_a_row():
    all_lines = [json.loads(line) for line in (ROOT / repeated.OUT).read_text().splitlines()]
    lines = [line for line in all_lines if line["commit"] == "fce0e83"]
    assert len(lines) == 10
    assert {(line["passed"], line["skipped"], line["status"]) for line in lines} == {(4098, 20, 0)}
    assert all(7 * 60 - 5 < line["seconds"] < 16 * 60 for line in lines)
    assert all(10 < (line["user"] + line["system"]) / 60 < 13 for line in lines)
    assert max(max(line["gigabytes"]) for line in lines) < 1.7
    assert all(5.5 <= line["load"][0] < 8.5 for line in lines)
    said = (ROOT / "docs/verification.md").read_text()
    assert "Ten runs in a row without one failure" in said and "4098 tests passed" in said
