"""What a person fetches goes into the folder that it was asked into, whatever the server says.

FLARE writes a file where the server's word for its name leads, and deletes and moves folders by
such words too.
"""

import re
from pathlib import Path
from typing import Any

from nvflare.fuel.hci.client import file_transfer
from nvflare.fuel.hci.proto import MetaKey, ProtoKey

from fedloom.errors import FederationError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Transfers(file_transfer.FileTransferModule):
    """FLARE's transfers, with names that are names and no paths."""

    def _tx_path(self, tx_id: object, folder_name: object) -> str:
        return str(super()._tx_path(_name(tx_id), _name(folder_name)))

    def pull_binary_file(self, args: list[str], ctx: Any) -> Any:
        """Fetch one file."""
        _name(args[5] if len(args) > 5 else "")
        return super().pull_binary_file(args, ctx)

    def pull_folder(self, args: list[str], ctx: Any) -> Any:
        """Fetch the files of a folder."""
        result = super().pull_folder(args, ctx)
        place = (result.get(ProtoKey.META) or {}).get(MetaKey.LOCATION)
        if place is not None and Path(place).parent != Path(self.download_dir):
            raise FederationError(
                f"the server says that the result is in {str(place)!r}, where nothing was fetched. "
                f"Nothing was taken from there."
            )
        return result


def _name(told: object) -> str:
    """A name that the server told, if it is one."""
    if not isinstance(told, str) or not _PLAIN.fullmatch(told):
        raise FederationError(
            f"the server named a file of the result {str(told)[:200]!r}, which is no plain name. "
            f"Nothing was fetched."
        )
    return told


def careful() -> None:
    """Have FLARE's sessions of this process fetch in this way."""
    file_transfer.FileTransferModule = Transfers
