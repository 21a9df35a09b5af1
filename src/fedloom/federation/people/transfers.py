"""What a person fetches goes where it was asked, and only what was handed in is sent.

FLARE writes a file where the server's word for its name leads, deletes and moves folders by such
words too, and lets the server say which command sends a folder of the person's machine.
"""

import contextlib
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from nvflare.fuel.hci.client import file_transfer
from nvflare.fuel.hci.proto import MetaKey, ProtoKey
from nvflare.fuel.hci.reg import CommandModuleSpec, CommandSpec

from fedloom.errors import FederationError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SCOPE = "job_mgmt"  # what FLARE's server calls the group of these commands
_handed: ContextVar[Path | None] = ContextVar("_handed", default=None)


class Transfers(file_transfer.FileTransferModule):
    """FLARE's transfers, with names that are names and no paths."""

    def get_spec(self) -> CommandModuleSpec:
        """The commands that transfer something, whatever the server's list of commands says.

        Without an own `download_job`, the server would say which folder of this machine is moved.
        """
        handlers = {
            "submit_job": self.push_folder,
            "download_job": self.pull_folder,
            self.PULL_BINARY_FILE_CMD: self.pull_binary_file,
        }
        return CommandModuleSpec(
            _SCOPE,
            [
                CommandSpec(name, "", name, handler, visible=False)
                for name, handler in handlers.items()
            ],
        )

    def generate_module_spec(self, server_cmd_spec: CommandSpec) -> None:
        """Make none of the server's commands one that transfers something."""

    def push_folder(self, args: list[str], ctx: Any) -> Any:
        """Send the folder that is handed in just now, and no other."""
        handed = _handed.get()
        if handed is None or args[1:] != [str(handed)]:
            raise FederationError(
                f"a folder that was not handed in was to be sent to the server: "
                f"{' '.join(args[1:])[:200]!r}. Nothing was sent."
            )
        return super().push_folder(args, ctx)

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


@contextlib.contextmanager
def handing_in(folder: Path) -> Iterator[None]:
    """Let a folder be sent to the server, as long as the block lasts."""
    before = _handed.set(folder)
    try:
        yield
    finally:
        _handed.reset(before)


def careful() -> None:
    """Have FLARE's sessions of this process fetch and send in this way."""
    file_transfer.FileTransferModule = Transfers
