"""`fedloom try-federation`: a server and three sites as processes of their own, on one laptop."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from fedloom.cli.run import add_set, show_result
from fedloom.cli.submit import submitted
from fedloom.data.parties import Parties
from fedloom.errors import FederationError
from fedloom.experiments import settings
from fedloom.experiments.registries import code_of_others
from fedloom.federation.job import check_code, check_one_method
from fedloom.federation.people import trial
from fedloom.files import writable_folder
from fedloom.reports import page

SITES = 3
EXAMPLE = """
[data]
name = "digits"

[partition]
scheme = "label"
clients = 3
classes_each = 6
test_fraction = 0.2

[problem]
kind = "multinomial"
intercept = true
l2 = 1e-4

[algorithm]
key = "scaffold"
lr = 0.5
local_steps = 20

[run]
rounds = 50
batch_size = 16
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "settings",
        metavar="SETTINGS.toml",
        type=Path,
        nargs="?",
        help="a settings file; without it, a small one on embedded data",
    )
    add_set(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("trial"),
        metavar="DIR",
        help="folder of the trial; trial by default",
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    if arguments.settings is None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "trial.toml"
            file.write_text(EXAMPLE, encoding="utf-8")
            chosen = settings.read(file, arguments.set)
    else:
        check_code(*settings.unread(arguments.settings, arguments.set))
        chosen = settings.read(arguments.settings, arguments.set)
        check_one_method(chosen)
    clients = chosen.clients()
    kits, out = writable_folder(arguments.out) / "kits", arguments.out / "result"
    if kits.exists():
        raise FederationError(f"{kits} exists already. Remove it, or choose another --out.")
    made = trial.build(
        kits,
        clients,
        methods=[chosen.tables["algorithm"]["key"]],
        problems=[chosen.tables["problem"]["kind"]],
        parts=sorted(code_of_others(chosen.tables)),
    )
    data: dict[str, Any] = {"label": trial.LABEL}
    if isinstance(clients, Parties):
        tested = 0 if clients.test_y is None else len(clients.test_y)
        data |= {"id": trial.ID, "standardise": False}  # as in a simulation of these settings
        data |= {"test_fraction": tested / (tested + clients.rows)} if tested else {}
    # The sites' tables have plain columns, so that is what the submitted settings speak of.
    federation = {"sites": [kit.name for kit in made.sites], **chosen.tables.get("federation", {})}
    tables = {**chosen.tables, "data": data, "federation": federation}
    federated = settings.parse(tables, chosen.place._replace(path=()))
    with trial.up(made, say=print):
        result = submitted(federated, made.lead, out)
    show_result(result)
    page.report([out], out / "report.html")
    print(f"kept in {out}; the sites' kits and logs in {kits}")
    print(f"Open {out / 'report.html'} in a browser.")
    return 0
