"""A whole federation on one machine: a server and sites as processes of their own, with TLS."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedloom.data.parties import Holders, Parties
from fedloom.errors import FederationError
from fedloom.federation.kits import Kit
from fedloom.federation.policy import NUMBERS
from fedloom.federation.policy_file import set_data, set_policy
from fedloom.federation.processes import running
from fedloom.federation.provisioning import Project, provision
from fedloom.files import write_file
from fedloom.rows import Rows

LABEL = "label"
ID = "person"  # of the rows of parties
LEAD = "lead@fedloom.local"


class TrialFederation(NamedTuple):
    """The kits of a federation on one machine."""

    server: Kit
    sites: tuple[Kit, ...]
    lead: Kit


# Rows that all lie on one machine need no protection from one another.
_OF_ONE_OWNER = {
    **{"min_sites": 1, "min_rows": 1, "min_batch": 1, "least_count": 1},
    "network_mb": 1000,
}


def build(
    folder: Path,
    clients: Holders,
    *,
    methods: Sequence[str],
    problems: Sequence[str],
    parts: Sequence[str] = (),
    people: dict[str, str] | None = None,
) -> TrialFederation:
    """Provision a server and a site for each client, and give each site what it holds in a file.

    Of parties with columns, the server gets the labels.
    """
    folder = folder.resolve()  # sites read their files from another working directory
    names = tuple(_plain(name) for name in clients.names)
    code = {"methods": list(methods), "problems": list(problems), "parts": list(parts)}
    project = Project(
        name="trial",
        sites=names,
        people={LEAD: "lead", **(people or {})},
        host="localhost",
        port=free_port(),
        policy={**code, **_allowed(clients)},
    )
    kits = {kit.name: kit for kit in provision(project, folder)}
    made = TrialFederation(kits["localhost"], tuple(kits[name] for name in names), kits[LEAD])
    set_policy(made.server.path, **code)
    rows = folder / "rows"
    if isinstance(clients, Parties):
        set_data(made.server.path, _write_labels(rows / "labels.parquet", clients))
        set_policy(made.server.path, id=ID, labels=_allowed(clients)["labels"])
    for i, kit in enumerate(made.sites):
        own, test = rows / f"{kit.name}.parquet", rows / f"{kit.name}-test.parquet"
        if isinstance(clients, Parties):
            set_data(kit.path, _write_columns(own, clients, i))
        else:
            tested = None if clients.test is None else clients.test_of(i)
            set_data(
                kit.path,
                write_rows(own, clients.of(i), clients.labels),
                None if tested is None else write_rows(test, tested, clients.labels),
            )
    return made


def _allowed(holders: Holders) -> dict[str, Any]:
    """All columns of the tables that sites are given."""
    if isinstance(holders, Parties):
        width = max(holders.widths)
    else:
        width = int(np.prod(holders.train.x.shape[1:]))
    classes = NUMBERS if holders.labels is None else holders.labels.tolist()
    features = [f"x{j}" for j in range(width)]
    return {"features": features, "labels": {LABEL: classes}, "id": ID, **_OF_ONE_OWNER}


@contextlib.contextmanager
def up(trial: TrialFederation, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """The server and all sites, running."""
    say(f"starting a server and {len(trial.sites)} sites")
    with running(trial.server, *trial.sites):
        yield


def write_rows(path: Path, rows: Rows | None, labels: np.ndarray | None) -> Path:
    """Rows as a site would have them: a table with a column for each feature and for the label."""
    if rows is None:
        raise FederationError(f"{path}: there are no rows to write. Give each site some.")
    x = np.asarray(rows.x).reshape(len(rows.y), -1)
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    y = np.asarray(rows.y)
    return _write(path, {**columns, LABEL: y if labels is None else labels[y]})


def _write_columns(path: Path, parties: Parties, i: int) -> Path:
    """A party's columns, of all people; those who are held out come last."""
    held_out = [] if parties.test_features is None else [parties.test_features[i]]
    blocks = [_dense(block) for block in (parties.features[i], *held_out)]
    x = np.concatenate(blocks)
    return _write(path, {ID: np.arange(len(x)), **{f"x{j}": x[:, j] for j in range(x.shape[1])}})


def _write_labels(path: Path, parties: Parties) -> Path:
    y = parties.y if parties.test_y is None else np.concatenate([parties.y, parties.test_y])
    labels = y if parties.labels is None else parties.labels[y]
    return _write(path, {ID: np.arange(len(y)), LABEL: labels})


def _dense(block: Any) -> np.ndarray:
    return np.asarray(block.toarray() if hasattr(block, "toarray") else block)


def _write(path: Path, columns: dict[str, np.ndarray]) -> Path:
    import polars as pl

    write_file(path, pl.DataFrame(columns).write_parquet)
    return path


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _plain(name: str) -> str:
    """A name that can stand in a certificate and in a path."""
    return "".join(c if c.isalnum() else "-" for c in name.lower()) or "site"
