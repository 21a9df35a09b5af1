"""The process of a server: FLARE's, which takes no jobs but those that fedloom writes."""

import sys
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.fed.app.server import server_train
from nvflare.private.fed.server import job_cmds
from nvflare.private.fed.server.job_meta_validator import JobMetaValidator

from fedloom.errors import RefusedError
from fedloom.federation.gate import guard
from fedloom.federation.job_files import check_job


class JobChecker(JobMetaValidator):
    """Looks at a job before FLARE reads anything of it."""

    def validate(self, job_name: str, job_data: Any) -> Any:
        """Whether the job is taken, else why not, and what it says of itself."""
        try:
            check_job(job_data if isinstance(job_data, bytes) else Path(job_data).read_bytes())
        except RefusedError as error:
            return False, str(error), {}
        return super().validate(job_name, job_data)


def main() -> int:
    """Start FLARE's process; the arguments are FLARE's."""
    guard()
    job_cmds.JobMetaValidator = JobChecker
    server_train.version_check()
    arguments = server_train.parse_arguments()
    status = MainProcessMonitor.run(
        main_func=server_train.main, run_dir=arguments.workspace, args=arguments
    )
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
