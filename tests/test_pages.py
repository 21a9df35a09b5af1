"""What pages say of commands, names, keys and settings, held against the code."""

import argparse
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.listing import LISTS
from fedloom.cli.main import parser
from fedloom.cli.tables import TABLES
from fedloom.cli.tables import describe as describe_table
from fedloom.experiments.schema import schema
from fedloom.federation import policy_file, provisioning
from fedloom.metrics.chosen import shown
from fedloom.parameters import parameters_of

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
TEXT = {page.stem: page.read_text() for page in PAGES}
GONE = {"fl.example.org", "fl.protocol.share"}  # an address, and a name that has changed
(VERBS,) = [
    action.choices
    for action in parser((), every=True)._actions
    if isinstance(action, argparse._SubParsersAction)
]


def found(name):
    """What a dotted name stands for; None where it stands for nothing."""
    thing = fl
    for part in name.split(".")[1:]:
        thing = getattr(thing, part, None)
    return thing


def commands(text, program):
    """What stands behind the name of a program in the code of a page."""
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [*re.findall(r"^    (.*)", text, re.MULTILINE), *re.findall(r"`([^`\n]+)`", text)]
    return [line.removeprefix(program) for line in lines if line.startswith(f"{program} ")]


@EACH_PAGE
def test_commands_of_a_page_have_the_verbs_and_options_that_there_are(page):
    for command in commands(TEXT[page.stem], "fedloom"):
        verb, *words = command.partition("#")[0].split()
        if verb != "--version":
            known = {option for action in VERBS[verb]._actions for option in action.option_strings}
            assert {word for word in words if word.startswith("--")} <= known, command


@EACH_PAGE
def test_names_and_make_targets_of_a_page_are_there(page):
    for name in set(re.findall(r"\bfl\.[A-Za-z_][\w.]*\w", TEXT[page.stem])) - GONE:
        assert found(name) is not None, name
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {command.split()[0] for command in commands(TEXT[page.stem], "make")} <= set(targets)
    for name in re.findall(r"python -m ((?:tools|benchmarks|verification)[\w.]*)", TEXT[page.stem]):
        file = ROOT / name.replace(".", "/")
        assert file.with_suffix(".py").exists() or (file / "__main__.py").exists(), name


SETTINGS = {
    "data": {"name": "iris"},
    "partition": {"scheme": "iid", "clients": 3},
    "problem": {"kind": "logistic"},
    "algorithm": {"key": "fedavg", "lr": 0.1},
    "run": {"rounds": 3},
}


@EACH_PAGE
def test_every_table_of_settings_on_a_page_is_valid(page, tmp_path):
    validator = jsonschema.Draft202012Validator(schema())
    for text in re.findall(r"```toml.*\n(.*?)```", TEXT[page.stem], re.DOTALL):
        tables = tomllib.loads(text)
        file = tmp_path / "policy.toml"
        file.write_text(text)
        if "people" in tables:
            provisioning.read_project(file)
        elif "methods" in tables:
            policy_file.read_policy(tmp_path)
        elif "project" not in tables:
            validator.validate({**SETTINGS, **tables})


def keys(table):
    return {row["name"] for row in describe_table(TABLES[table])["parameters"]}


def rows(page, heading):
    """What a table has in its first column, as code."""
    table = TEXT[page].partition(heading)[2].strip().partition("\n\n")[0]
    return set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))))


def test_tables_of_keys_have_all_that_there_are():
    assert rows("federation", "and the first goes on.") == keys("policy")
    assert rows("guide", "What `[compare]` may say:") == keys("compare")
    assert rows("guide", "What else `[sweep]` may say:") | {"trials"} == keys("sweep")


@pytest.mark.parametrize(
    "kind,page",
    [
        *(("wrappers", "wrappers"), ("compressors", "wrappers"), ("aggregators", "wrappers")),
        *(("metrics", "metrics"), ("schedules", "guide"), ("optimisers", "guide")),
    ],
)
def test_a_page_names_all_of_a_kind(kind, page):
    missing = [row["key"] for row in LISTS[kind]() if row["key"] not in TEXT[page]]
    assert not missing


def test_which_step_sizes_take_no_schedule():
    fixed = {
        (key, field.name)
        for key, entry in CATALOGUE.items()
        for field in parameters_of(entry.cls)
        if re.search(r"(^|_)lr$|^step$", field.name) and "a schedule" not in field.rule
    }
    sums = {"decoupled_prox", "feddualavg", "fedualex"}  # they compute with the sum of all steps
    told = " ".join(TEXT["guide"].split())
    assert {key for key, name in fixed if name == "lr"} == sums
    assert "except in DecoupledProx, FedDualAvg and FeDualEx" in told
    assert {name for key, name in fixed if key not in sums} == {"step", "personal_lr", "alpha_lr"}
    assert "`step`, `personal_lr` and `alpha_lr` are numbers" in told


def test_which_methods_take_an_optimiser():
    with_one = {k for k, e in CATALOGUE.items() if hasattr(e.cls, "optimiser")}
    assert {"fedavg", "scaffold", "drfa", "ditto", "split_training", "cvfl", "ef_vfl"} <= with_one
    assert not with_one & {k for k, e in CATALOGUE.items() if e.family == "minimax"}


def test_what_is_measured_where_nothing_is_named():
    problems, mlp = fl.problems, fl.models.MLP()
    own = problems.Supervised(mlp, loss=lambda scores, y: scores[:, 0])
    for problem, begins in (
        (problems.Multinomial(), "classification"),
        (problems.MultiLabel(), "`multi_label`"),
        (problems.LeastSquares(), "regression (`least_squares`"),
        (problems.Poisson(), "`poisson`"),
        (problems.Cox(), "`cox`"),
        (problems.AUC(), "`auc`"),
        (own, "a loss of your own"),
        (problems.Bilinear(), "`bilinear`"),
    ):
        lines = TEXT["metrics"].splitlines()
        row = next(line for line in lines if line.startswith(f"| {begins}"))
        assert re.findall(r"`(\w+)`", row.split("|")[2].partition(";")[0]) == list(shown(problem))


def test_the_readme_counts_the_methods():
    assert f": {len(CATALOGUE)} of them," in TEXT["README"]
    variants = [key for key in CATALOGUE if key.startswith("egvfl_")]
    assert "`egvfl` and nine variants" in TEXT["README"] and len(variants) == 9
