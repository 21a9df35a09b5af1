"""Importing fedloom is quick: what is heavy loads when it is used, and nothing is missing."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fedloom as fl
from fedloom.cli.main import VERBS

HEAVY = ("jax", "matplotlib", "numpy", "nvflare", "optax", "polars", "scipy.optimize", "sklearn")
LAZY = (fl, fl.algorithms)
EARLY = {"fedloom.cli.main", "fedloom.cli.plain"}  # the help is printed plainly, too


def loaded(source):
    """The modules that a fresh process has loaded after it ran `source`."""
    show = "\nimport sys; print('loaded:', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", source + show], capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("loaded:")[2].split())


def test_importing_fedloom_loads_nothing_heavy():
    assert loaded("import fedloom").isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["nonsense"]])
def test_the_command_line_loads_nothing_heavy_before_there_is_a_verb(words):
    source = f"""
from fedloom.cli.main import main
try:
    main({words!r})
except SystemExit:
    pass"""
    there = loaded(source)
    assert there.isdisjoint(HEAVY)
    assert {name for name in there if name.startswith("fedloom.cli.")} == EARLY


def test_a_verb_loads_no_other_that_it_does_not_use():
    there = loaded("from fedloom.cli.main import parser; parser(['budget', '--help'])")
    assert "fedloom.cli.budget" in there
    assert there.isdisjoint({"fedloom.cli.run", "fedloom.cli.sweep", "fedloom.cli.demo"})


def test_a_method_loads_its_own_family_only():
    there = loaded("import fedloom; fedloom.algorithms.Scaffold")
    families = ("averaging", "composite", "minimax", "personal", "robust", "vertical", "wrappers")
    assert [name for name in families if f"fedloom.algorithms.{name}" in there] == ["averaging"]


@pytest.mark.parametrize(
    "source", ["import fedloom", "from fedloom.simulator.run import simulate", "import fedloom.cli"]
)
def test_the_compiler_is_told_of_its_wrong_fusion_by_the_import_of_any_module(source):
    told = f"""
import importlib.metadata as m, os; right = m.version
m.version = lambda name: '0.10.1' if name == 'jaxlib' else right(name)
os.environ.pop('XLA_FLAGS', None)
{source}
assert 'ynn_fusion_type' in os.environ['XLA_FLAGS']
import jax
assert not jax._src.xla_bridge.backends_are_initialized()"""
    subprocess.run([sys.executable, "-c", told], check=True)


def test_every_verb_declares_its_options():
    for verb in VERBS.values():
        assert callable(
            getattr(importlib.import_module(f"fedloom.cli.{verb.module}"), verb.declare)
        )


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_type_checkers_read_the_same_names_as_python(package):
    tree = ast.parse(Path(package.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {alias.asname: (node.module, alias.name) for node in block.body for alias in node.names}
    assert sorted(told) == package.__all__
    for name, (module, original) in told.items():
        assert original == name
        try:
            there = importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError:
            there = getattr(importlib.import_module(module), name)
        assert getattr(package, name) is there


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_all_names_come_with_a_star_and_are_listed(package):
    there = {}
    exec(f"from {package.__name__} import *", there)
    assert set(package.__all__) <= set(there)
    assert {name for name in dir(package) if not name.startswith("__")} == set(package.__all__)


def test_modules_that_are_not_public_can_be_had_too():
    source = "import fedloom; print(fedloom.exchange, fedloom.algorithms.catalogue)"
    assert {"fedloom.exchange", "fedloom.algorithms.catalogue"} <= loaded(source)


def test_a_name_that_is_not_there_is_an_attribute_error():
    for package in LAZY:
        with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
            _ = package.no_such_name
        assert not hasattr(package, "_no_such_name")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from fedloom import no_such_name")


def test_a_module_that_lacks_what_it_needs_says_so(tmp_path, monkeypatch):
    (tmp_path / "halves").mkdir()
    (tmp_path / "halves" / "__init__.py").write_text(
        "from fedloom.lazy import names\n"
        "__all__, __getattr__, __dir__ = names(__name__, {'half': ()})\n"
    )
    (tmp_path / "halves" / "half.py").write_text("import no_such_package_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    halves = importlib.import_module("halves")
    with pytest.raises(ModuleNotFoundError, match="no_such_package_anywhere"):
        _ = halves.half
    del sys.modules["halves"]


def test_public_objects_are_found_under_the_names_of_their_own_modules():
    for value in (fl.algorithms.FedAvg, fl.simulate, fl.problems.Logistic, fl.DivergedError):
        assert getattr(importlib.import_module(value.__module__), value.__qualname__) is value
    assert fl.algorithms.FedAvg.__module__ == "fedloom.algorithms.averaging.fedavg"
