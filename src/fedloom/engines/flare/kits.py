"""Kits: the folder that the server, a site or a person gets, with certificates and settings."""

import json
from pathlib import Path
from typing import NamedTuple

from fedloom.errors import FederationError

CARD = "fedloom.json"  # says whose kit it is
ROLES = {"server": "the server", "site": "a site", "person": "a person who submits runs"}


class Kit(NamedTuple):
    """A kit folder."""

    path: Path
    role: str  # "server", "site" or "person"
    name: str
    organisation: str
    project: str

    def write_card(self) -> None:
        """Note in the folder whose it is."""
        facts = {key: getattr(self, key) for key in self._fields if key != "path"}
        (self.path / CARD).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def open_kit(path: str | Path, role: str) -> Kit:
    """Read a kit; it must be one of the role that a command needs."""
    folder = Path(path).expanduser().resolve()
    try:
        kit = Kit(folder, **json.loads((folder / CARD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise FederationError(
            f"{folder} is no kit: it has no readable {CARD}. "
            f"Give a folder that `fedloom provision` made."
        ) from None
    if kit.role != role:
        raise FederationError(
            f"{folder} is the kit of {ROLES[kit.role]}, {kit.name}; this command needs that of "
            f"{ROLES[role]}. Give the right folder."
        )
    return kit
