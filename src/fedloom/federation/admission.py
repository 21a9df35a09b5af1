"""Which code a job may have loaded: fedloom's own, and beyond that what an owner has named.

Settings that come over a network are somebody else's. Nothing is imported because they name it: a
site loads what is installed there and what its policy names, letter by letter, and the server what
installed packages announce. A file is executed nowhere.
"""

from pathlib import Path

from fedloom.errors import RefusedError
from fedloom.experiments.addresses import address, file_of
from fedloom.experiments.locations import Admission
from fedloom.federation.policy import POLICY, Policy
from fedloom.federation.policy_file import read_policy


def at_site(policy: Policy) -> Admission:
    """What a site loads for a job."""

    def admit(kind: str, name: str) -> None:
        _refuse_files(name)
        policy.check_code(kind, name)

    return admit


def at_server(home: Path) -> Admission:
    """What the server loads for a job: its kit may have a policy too."""
    policy = read_policy(home) if (home / POLICY).exists() else Policy()

    def admit(kind: str, name: str) -> None:
        _refuse_files(name)
        if address(name) is not None and name not in policy.named(kind):
            raise RefusedError(
                f"the server loads what installed packages announce, and no module because a job "
                f"names it; the job wants {name!r} of the {kind}. Its owner may add it to "
                f"{policy.field_of(kind)} in its kit's {POLICY}."
            )

    return admit


def _refuse_files(name: str) -> None:
    if file_of(name) is not None:
        raise RefusedError(
            f"a file is executed for nobody else's settings; the job wants {name!r}. Put it into a "
            f"package, and let owners install that."
        )
