"""Which modules a run passes through: `python -m tools.walks`.

Three walks: `fl.simulate`, `fedloom run FILE`, and a submitted run with server and sites in one
process, over the bytes that would travel. The kits of the sites are made before. A module counts
when one of its functions is called; what a module does while it is imported does not count, so all
are imported before.
"""

import contextlib
import importlib
import io
import pkgutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import fedloom as fl
from fedloom.cli.main import main as fedloom

PACKAGE = f"{Path(fl.__file__).parent}/"
SETTINGS = """
data = { name = "digits" }
partition = { scheme = "label", clients = 10, classes_each = 2 }
problem = { kind = "multinomial" }
algorithm = { key = "fedavg", lr = 0.1 }
run = { rounds = 2 }
"""


def walked(part: Callable[[], Any]) -> dict[str, set[str]]:
    """The functions that a part calls, by module, in the order in which modules are entered."""
    entered: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            module = frame.f_code.co_filename.removeprefix(PACKAGE).removesuffix(".py")
            entered.setdefault(module, set()).add(frame.f_code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        # Into a text and not a terminal, on which there would be a bar.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            part()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def main() -> None:
    """Draw the walks."""
    sys.path.insert(0, "tests")
    from federation import harness

    for module in pkgutil.walk_packages(fl.__path__, "fedloom."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder:
        file, kits = Path(folder, "run.toml"), Path(folder, "kits")
        file.write_text(SETTINGS)
        kits.mkdir()
        digits = fl.data.partition(fl.data.load("digits"), "label", clients=10, classes_each=2)
        method, problem = fl.algorithms.FedAvg(lr=0.1), fl.problems.Multinomial()
        chosen = harness.settings()
        wires = harness.federation(kits, chosen)[1]  # kits with rows and policies
        simulate = fl.simulate  # looked up here: the first look at a public name loads it
        walks = {
            "fl.simulate": lambda: simulate(method, problem, digits, rounds=2, progress=False),
            "fedloom run": lambda: fedloom(["run", str(file), "--out", f"{folder}/out"]),
            "a submitted run": lambda: harness.federation(kits, chosen, wires=wires)[0].run(),
        }
        for name, part in walks.items():
            entered = walked(part)
            print(f"{name}: {len(entered)} modules, {sum(map(len, entered.values()))} functions")
            for module, functions in entered.items():
                print(f"    {module:36}{', '.join(sorted(functions)[:4])}")


if __name__ == "__main__":
    main()
