"""Who may speak to whom: a participant is heard by the server, and hears the server and itself.

FLARE's server hands messages on from any participant to any other, and believes what they say of
where they come from. So every process of a kit, and a person's, looks at a message before FLARE
does; what may not pass is dropped, and whoever sent it waits in vain.
"""

import functools
import logging
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN

log = logging.getLogger("fedloom")


def may_pass(here: str, beside: str, origin: str, destination: str) -> bool:
    """Whether a process takes, or hands on, a message that came over one of its connections.

    Args:
        here: The process that has the message. Processes are called NAME or NAME.JOB by FLARE.
        beside: The other end of the connection, which showed a certificate with its name.
        origin: From whom the message says that it is.
        destination: For whom it is.
    """
    home, neighbour, sender, receiver = (
        name.partition(FQCN.SEPARATOR)[0] for name in (here, beside, origin, destination)
    )
    if neighbour not in (home, sender):  # a process of the same kit has looked at it already
        return False
    if home == FQCN.ROOT_SERVER:
        return FQCN.ROOT_SERVER in (sender, receiver)
    return {sender, receiver} <= {home, FQCN.ROOT_SERVER}


def guard() -> None:
    """Look at all messages of this process from now on."""
    received = CoreCell._process_received_msg
    if hasattr(received, "__wrapped__"):
        return

    @functools.wraps(received)
    def looked_at(cell: Any, endpoint: Any, connection: Any, message: Any) -> Any:
        named = (MessageHeaderKey.ORIGIN, MessageHeaderKey.DESTINATION)
        origin, destination = (str(message.get_header(key, "")) for key in named)
        if not may_pass(cell.my_info.fqcn, endpoint.name, origin, destination):
            log.warning(
                "a message of %r for %r, by way of %r, was dropped",
                *(origin, destination, endpoint.name),
            )
            return None
        return received(cell, endpoint, connection, message)

    CoreCell._process_received_msg = looked_at
