"""Who may speak to whom: a participant is heard by the server, and hears the server and itself.

FLARE's server hands messages on from any participant to any other, and believes what they say of
where they come from; and what is for its own processes alone, such as to end a job, it does for
whoever asks. So every process of a kit, and a person's, looks at a message before FLARE does; what
may not pass is dropped, and whoever sent it waits in vain.
"""

import functools
import logging
from typing import Any

from nvflare.apis.fl_constant import ServerCommandNames
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, StreamHeaderKey
from nvflare.fuel.utils.admin_name_utils import is_valid_admin_client_name

log = logging.getLogger("fedloom")
_OWN = (CellChannel.SERVER_PARENT_LISTENER, "_net_manager")  # of the server's processes alone
_WORK = (ServerCommandNames.GET_TASK, ServerCommandNames.SUBMIT_UPDATE)  # of a site, in its job
_LOGIN = (CellChannelTopic.Challenge, CellChannelTopic.Register, CellChannelTopic.Quit)


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


def may_ask(here: str, origin: str, channel: str, topic: str) -> bool:
    """Whether a request that has passed is followed here.

    Args:
        here: The process that is asked.
        origin: From whom the request is.
        channel: What FLARE calls a kind of requests.
        topic: What it calls the request.
    """
    (home, _, job), (sender, _, its_job) = (n.partition(FQCN.SEPARATOR) for n in (here, origin))
    if sender == home or home != FQCN.ROOT_SERVER:
        return True
    if channel in _OWN:
        return False
    if is_valid_admin_client_name(sender):
        return not job and (channel != CellChannel.SERVER_MAIN or topic in _LOGIN)
    return channel != CellChannel.SERVER_COMMAND or (topic in _WORK and job == its_job)


def guard() -> None:
    """Look at all messages of this process from now on."""
    received, asked = CoreCell._process_received_msg, CoreCell._process_request
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

    @functools.wraps(asked)
    def followed(cell: Any, origin: str, message: Any) -> Any:  # also each one of a bulk
        channel, topic = MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC
        if message.get_header(channel) == STREAM_CHANNEL:  # a long request comes in pieces
            channel, topic = StreamHeaderKey.CHANNEL, StreamHeaderKey.TOPIC
        kind, name = (str(message.get_header(key, "")) for key in (channel, topic))
        if not may_ask(cell.my_info.fqcn, str(origin), kind, name):
            log.warning("a request of %r, %s of %s, was not followed", origin, name, kind)
            return None
        return asked(cell, origin, message)

    CoreCell._process_received_msg = looked_at
    CoreCell._process_request = followed
