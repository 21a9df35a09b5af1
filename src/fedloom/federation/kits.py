"""Kits: the folders with certificates and settings that server, sites and people get."""

from pathlib import Path
from typing import NamedTuple

from fedloom.checksums import read_json, understood, write_json
from fedloom.errors import FederationError, MissingDataError

CARD = "fedloom.json"  # says whose kit it is
ROLES = {"server": "the server", "site": "a site", "person": "a person who submits runs"}


class Kit(NamedTuple):
    """A kit folder."""

    path: Path
    role: str  # "server", "site" or "person"
    name: str
    organisation: str
    project: str
    may: str = "lead"  # of a person: the role in the project

    def write_card(self) -> None:
        """Note in the folder whose it is."""
        facts = {key: getattr(self, key) for key in self._fields if key != "path"}
        write_json(self.path / CARD, facts)


SUBMITTERS = ("lead", "project_admin")  # roles that FLARE lets submit runs


def check_may_submit(kit: Kit) -> None:
    """Refuse the kit of a person who may only watch runs, before the server does."""
    if kit.may not in SUBMITTERS:
        raise FederationError(
            f"{kit.name} has the role {kit.may!r} in {kit.project}, which may look on with "
            f"`fedloom status` and not submit runs. Ask the coordinator for a kit of the role lead."
        )


def open_kit(path: str | Path, role: str) -> Kit:
    """Read a kit; it must have the role that the command needs."""
    folder = Path(path).expanduser().resolve()
    try:
        facts = read_json(folder / CARD)
    except MissingDataError:
        raise FederationError(
            f"{folder} is no kit: it has no {CARD}. Give a folder that `fedloom provision` made."
        ) from None
    with understood(folder / CARD):
        kit = Kit(folder, **facts)
        whose = ROLES[kit.role]
    if kit.role != role:
        raise FederationError(
            f"{folder} is the kit of {whose}, {kit.name}; this command needs that of "
            f"{ROLES[role]}. Give the right folder."
        )
    return kit
