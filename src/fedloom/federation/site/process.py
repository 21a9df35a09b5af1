"""The process of a site: FLARE's, which takes no orders but those that a run needs.

FLARE's site also runs shell commands, deletes folders and changes its logs. Whether the rights in
authorization.json are looked at says the end that asks; so what no run needs is not there at all.
"""

import sys
from typing import Any

from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.admin_defs import error_reply
from nvflare.private.defs import RequestHeader, TrainingTopic, new_cell_message
from nvflare.private.fed.app.client import client_train
from nvflare.private.fed.client.admin import FedAdminAgent

from fedloom.errors import RefusedError
from fedloom.federation.gate import guard
from fedloom.federation.job import is_id
from fedloom.federation.job_files import check_app

ORDERS = {
    TrainingTopic.CHECK_RESOURCE,
    TrainingTopic.CANCEL_RESOURCE,
    TrainingTopic.DEPLOY,
    TrainingTopic.START_JOB,
    TrainingTopic.ABORT,
    TrainingTopic.NOTIFY_JOB_STATUS,
}


class SiteAgent(FedAdminAgent):
    """Hears what the server wants of a site."""

    def register_processor(self, processor: Any) -> None:
        """Take FLARE's way to follow an order if it is one that a run needs."""
        if set(processor.get_topics()) <= ORDERS:
            super().register_processor(processor)

    def _dispatch_request(self, request: Any) -> Any:
        """Follow an order; FLARE makes and deletes folders of a job by its id as it is told it."""
        order = request.payload
        job, meta = (
            order.get_header(key) for key in (RequestHeader.JOB_ID, RequestHeader.JOB_META)
        )
        if not is_id(job) or (meta is not None and meta.get(RequestHeader.JOB_ID) != job):
            return new_cell_message({}, error_reply("invalid_request"))
        if order.topic == TrainingTopic.DEPLOY:
            try:
                check_app(order.body)
            except RefusedError as error:
                return new_cell_message({}, error_reply(str(error)))
        return super()._dispatch_request(request)


def main() -> int:
    """Start FLARE's process; the arguments are FLARE's."""
    guard()
    client_train.FedAdminAgent = SiteAgent
    client_train.version_check()
    arguments = client_train.parse_arguments()
    status = MainProcessMonitor.run(
        main_func=client_train.main, run_dir=arguments.workspace, args=arguments
    )
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
