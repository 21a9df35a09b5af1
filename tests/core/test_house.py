"""The house: which room may know of which, what is exported, and how large a file may grow."""

import ast
import re
from pathlib import Path

import fedloom as fl
from fedloom import parameters
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.parameters import Rule
from fedloom.protocol import Algorithm

PACKAGE = Path(fl.__file__).parent
STOREYS = (  # a room knows of those in its own storey and below
    "errors files checksums hints lazy version versions",
    "draws pytrees parameters layout types",
    "on_disk rows divided_rows",
    "protocol oracles loss_oracles cohorts schedules optimisers local objective "
    "saddle_objective party operators",
    "models problems",
    "data metrics",
    "population hub_view",
    "algorithms",
    "rounds",
    "exchange",
    "pictures",
    "measuring",
    "simulator",
    "preparation deploy diagnostics",
    "checking",
    "loading experiments",
    "reports sklearn federation doctor",
    "cli __main__",
)
LEVEL = {room: level for level, rooms in enumerate(STOREYS) for room in rooms.split()}


def sources():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def rooms_known_to(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "fedloom":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedloom."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from ("cli" for name in node.names if name.name.split(".")[0] == "fedloom")


def test_imports_point_downwards():
    wrong = []
    for path in sources():
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        known = rooms_known_to(path)
        wrong += [f"{path.name} of {own}: {room}" for room in known if LEVEL[room] > LEVEL[own]]
    assert not wrong


def test_the_page_on_design_has_these_storeys():
    page = (PACKAGE.parents[1] / "docs" / "design.md").read_text()
    block = page.partition("## Rooms")[2].split("```")[1]
    told = [line.split("  ")[0] for line in block.splitlines() if line.strip() and line[0] != " "]
    assert [set(re.findall(r"\w+", line)) for line in told] == [set(s.split()) for s in STOREYS]


def test_every_public_name_is_there_and_every_method_is_exported():
    assert all(hasattr(fl, name) for name in fl.__all__)
    assert all(getattr(fl.algorithms, e.name) is e.cls for e in CATALOGUE.values())


def test_methods_share_functions_of_values_and_no_classes():
    assert {
        e.key: e.cls.__bases__ for e in CATALOGUE.values() if e.cls.__bases__ != (Algorithm,)
    } == {}
    borrowed = [
        f"{path.name}: {function.name}"
        for path in (PACKAGE / "algorithms").rglob("*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef)
        for taken in (*function.args.posonlyargs, *function.args.args)
        if taken.arg in ("self", "method") and ast.unparse(taken.annotation) == "Any"
    ]
    assert not borrowed


def test_no_two_classes_of_the_methods_have_one_name():
    names = [
        node.name
        for path in sorted((PACKAGE / "algorithms").rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == set()


def test_a_method_needs_nothing_but_the_door():
    rooms = [fl.protocol, fl.cohorts, fl.local, fl.operators]
    rooms += [getattr(fl.operators, name) for name in fl.operators.__all__]
    for room in rooms:
        assert room.__all__ and all(hasattr(room, name) for name in room.__all__)
    rules = {name for name, value in vars(parameters).items() if isinstance(value, Rule)}
    assert rules | {"param", "parametrised"} <= set(fl.protocol.__all__)
    used = {
        (node.module, name.name)
        for path in (PACKAGE / "algorithms" / "averaging").glob("[!_]*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module.startswith("fedloom.")
        and node.module != "fedloom.types"  # annotations
        for name in node.names
    }
    doors = {"fedloom.protocol": fl.protocol, "fedloom.parameters": fl.protocol}
    doors |= {"fedloom.cohorts": fl.cohorts, "fedloom.local": fl.local}
    doors |= {"fedloom.oracles": fl.oracles, "fedloom.schedules": fl.schedules}
    doors |= {"fedloom.optimisers": fl.optimisers}
    assert used and all(name in doors[module].__all__ for module, name in used)


def test_no_file_outgrows_its_idea():
    lengths = {str(path): len(path.read_text().splitlines()) for path in sources()}
    assert {name: length for name, length in lengths.items() if length > 300} == {}
