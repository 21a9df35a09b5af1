"""A whole federation on one machine: a server and sites as processes of their own, with TLS."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedloom.data.clients import Clients
from fedloom.engines.flare.kits import Kit
from fedloom.engines.flare.policy import set_data
from fedloom.engines.flare.processes import running
from fedloom.engines.flare.provisioning import Project, provision
from fedloom.errors import FederationError
from fedloom.rows import Rows

LABEL = "label"
LEAD = "lead@fedloom.local"


class Trial(NamedTuple):
    """The kits of a federation on one machine."""

    server: Kit
    sites: tuple[Kit, ...]
    lead: Kit


def build(
    folder: Path,
    clients: Clients,
    *,
    methods: Sequence[str],
    problems: Sequence[str],
    people: dict[str, str] | None = None,
) -> Trial:
    """Provision a server and a site for each client, and give each site its rows in a file."""
    names = tuple(_plain(name) for name in clients.names)
    project = Project(
        name="trial",
        sites=names,
        people={LEAD: "lead", **(people or {})},
        host="localhost",
        port=free_port(),
        policy={"methods": list(methods), "problems": list(problems)},
    )
    kits = {kit.name: kit for kit in provision(project, folder)}
    for i, name in enumerate(names):
        rows = folder / "rows"
        set_data(
            kits[name].path,
            write_rows(rows / f"{name}.parquet", clients.of(i), clients.labels),
            None
            if clients.test is None
            else write_rows(rows / f"{name}-test.parquet", clients.test_of(i), clients.labels),
        )
    return Trial(kits["localhost"], tuple(kits[name] for name in names), kits[LEAD])


@contextlib.contextmanager
def up(trial: Trial, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """The server and all sites, running."""
    say(f"starting a server and {len(trial.sites)} sites")
    with running(trial.server, *trial.sites):
        yield


def write_rows(path: Path, rows: Rows | None, labels: np.ndarray | None) -> Path:
    """Rows as a site would have them: a table with a column for each feature and for the label."""
    import polars as pl

    if rows is None:
        raise FederationError(f"{path}: there are no rows to write. Give each site some.")
    x = np.asarray(rows.x).reshape(len(rows.y), -1)
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    y = rows.y if labels is None else labels[rows.y]
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({**columns, LABEL: y}).write_parquet(path)
    return path


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _plain(name: str) -> str:
    """A name that can stand in a certificate and in a path."""
    return "".join(c if c.isalnum() else "-" for c in name.lower()) or "site"
