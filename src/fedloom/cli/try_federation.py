"""`fedloom try-federation`: a server and three sites as processes of their own, on one laptop."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from fedloom.cli.run import show_result
from fedloom.cli.submit import submitted
from fedloom.data.parties import Parties
from fedloom.engines.flare import trial
from fedloom.errors import FederationError
from fedloom.experiments import settings
from fedloom.experiments.places import Place

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


def add(verbs: Any) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "try-federation", help="a federation of three sites on this machine, TLS and all"
    )
    parser.add_argument("settings", metavar="SETTINGS.toml", type=Path, nargs="?")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path("trial"), metavar="DIR")
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    if arguments.settings is None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "trial.toml"
            file.write_text(EXAMPLE, encoding="utf-8")
            chosen = settings.read(file, arguments.set)
    else:
        chosen = settings.read(arguments.settings, arguments.set)
    clients = chosen.clients()
    if isinstance(clients, Parties):
        raise FederationError(
            "try-federation takes sites with rows of their own, not parties with columns. "
            "Use a problem of another family."
        )
    kits = arguments.out / "kits"
    if kits.exists():
        raise FederationError(f"{kits} exists already. Remove it, or choose another --out.")
    made = trial.build(
        kits,
        clients,
        methods=[chosen.tables["algorithm"]["key"]],
        problems=[chosen.tables["problem"]["kind"]],
    )
    # The sites' tables have plain columns, so that is what the submitted settings speak of.
    federation = {"sites": [kit.name for kit in made.sites], **chosen.tables.get("federation", {})}
    tables = {**chosen.tables, "data": {"label": trial.LABEL}, "federation": federation}
    federated = settings.parse(tables, Place(chosen.place.file, chosen.place.text))
    with trial.up(made, say=print):
        result = submitted(federated, made.lead, arguments.out / "result")
    show_result(result)
    print(f"kept in {arguments.out / 'result'}; the sites' kits and logs in {kits}")
    return 0
