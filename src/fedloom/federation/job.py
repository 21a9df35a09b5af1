"""A job, which is what a person submits: settings, no code.

Settings that come over a network may be anybody's, so nothing is imported just because they name
it. A site loads only what is installed there and named, letter by letter, in its policy; the server
loads only what installed packages announce. Files are never executed.

Server and sites each have the method's code, and must mean the same by a message. So their versions
must have the same first two numbers: 1.4.0 and 1.4.7 agree, 0.1.0 and 0.2.0 do not.
"""

import copy
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from fedloom import version
from fedloom.errors import RefusedError
from fedloom.experiments import building
from fedloom.experiments.addresses import address, file_of, networks, slots
from fedloom.experiments.locations import Admission, Location
from fedloom.experiments.options import FederationSettings
from fedloom.experiments.settings import Settings, parse
from fedloom.federation.policy import POLICY, Policy
from fedloom.federation.policy_file import read_policy
from fedloom.models.graph.graph import Graph
from fedloom.problems.vertical import Vertical

OUTCOME = "outcome.json"  # what a job leaves in its folder: how it ended,
RESULT = "result"  # and what came of it
TOPIC = "fedloom.status"  # under which a running job tells how it stands
_NOT_SENT = ("partition", "compare")  # tables that concern a simulation only
OWN = ("name", "path", "test", "parties")  # of [data]: every site knows where its own are
_RUN = re.compile(r"[\w@-][\w.@-]*")  # a run's name is a folder's too


class Job(NamedTuple):
    """A run, or a part of one, as server and sites get it."""

    run: str  # the run's name, the same for all jobs that continue it
    tables: dict[str, Any]  # of the settings file
    resume: bool = False

    def check(self) -> None:
        """Refuse a job that names folders or files; fedloom never submits such a job."""
        data = self.tables.get("data")
        if not isinstance(self.run, str) or not _RUN.fullmatch(self.run):
            raise RefusedError(f"a run's name must be one plain word; got {self.run!r}.")
        if not isinstance(data, dict) or data.keys() & set(OWN):
            raise RefusedError(f"[data] of a job must not say {', '.join(OWN)}; got {data!r}.")

    def settings(self, admit: Admission) -> Settings:
        """The settings, read and checked again at whatever end this is, with what it admits."""
        for table in networks(self.tables):  # whose files are the submitter's, and not opened here
            if not isinstance(table.get("data"), str) or Path(table["file"]).name != table["file"]:
                raise RefusedError(
                    "a network of a job must come with its data and without a folder; got the "
                    "name of a file alone."
                )
        return parse(self.tables, Location(f"run {self.run}", "", admit=admit))

    @property
    def federation(self) -> FederationSettings:
        """The table [federation]."""
        place = Location(f"run {self.run}", "", ("federation",))
        return building.construct(FederationSettings, self.tables.get("federation", {}), place)

    def text(self) -> str:
        """The job as JSON."""
        return json.dumps(self._asdict())

    @staticmethod
    def from_text(text: str) -> "Job":
        """A job from JSON."""
        return Job(**json.loads(text))


def check_code(tables: dict[str, Any], place: Location) -> None:
    """Refuse settings that name code which no site would load, before it is loaded here.

    A file would have to be executed at the sites, and what comes with Python is no method.
    """
    for slot in slots({n: t for n, t in tables.items() if n not in (*_NOT_SENT, "data")}):
        where = place._replace(path=slot.path)
        found = address(slot.name)
        if found is not None and found.is_file:
            raise where.error(
                f"sites execute no file of others; got {slot.name}. Put it into a package that "
                f"their owners install, and name it by the key that the package announces."
            )
        if found is not None and found.where.partition(".")[0] in sys.stdlib_module_names:
            raise where.error(
                f"{found.where!r} comes with Python and has nothing for a federation; got "
                f"{slot.name}. Name a method of fedloom, or of a package that owners install."
            )


def check_sendable(tables: dict[str, Any], place: Location) -> None:
    """Refuse settings that no site can use, before anything is loaded or sent."""
    check_code(tables, place)
    data, federation = tables.get("data"), tables.get("federation")
    if not isinstance(data, dict):
        return  # which reading the settings complains of
    if "test" in data:
        raise (place / "data" / "test").error(
            "names files of a simulation; over a network every owner names the site's own test "
            "rows, with `fedloom join --test FILE`. Remove it."
        )
    secure = isinstance(federation, dict) and federation.get("secure_aggregation") is True
    if "sites" in data and secure:
        raise (place / "federation" / "secure_aggregation").error(
            "must be false where raw tables are prepared together (sites in [data]), because the "
            "sums of the preparation are not secured; got true. Prepare tables beforehand, and "
            "leave sites out of [data]."
        )


def job_of(settings: Settings, run: str, resume: bool = False) -> Job:
    """The job for a settings file; settings that only a simulation uses are left out."""
    check_sendable(settings.tables, settings.place)
    tables = {name: table for name, table in settings.tables.items() if name not in _NOT_SENT}
    columns = {key: value for key, value in tables["data"].items() if key not in OWN}
    if "sites" in columns:
        columns["sites"] = "*"  # tables to be prepared, each at its own site
    elif "test_fraction" in columns and not isinstance(settings.problem, Vertical):
        raise (settings.place / "data" / "test_fraction").error(
            "is for raw tables, which have sites in [data]; sites with encoded rows name a file of "
            "test rows in their policy. Remove it."
        )
    if "label" not in columns:
        raise (settings.place / "data").error(
            "needs label, the column that sites' tables have for it. Add label = ..."
        )
    check_one_method(settings)
    tables = copy.deepcopy({**tables, "data": columns})
    for table in networks(tables):
        graph = Graph(table["file"], table.get("sha256"))
        table |= {"file": Path(graph.file).name, "sha256": graph.sha256, "data": graph.carried()}
    return Job(run, tables, resume)


def check_one_method(settings: Settings) -> None:
    """Refuse methods to compare."""
    if not isinstance(settings.tables["algorithm"], dict):
        raise (settings.place / "algorithm").error(
            "a federation runs one method. Keep one of them, and write [algorithm] in the place of "
            "[[algorithm]]."
        )


def fingerprint(settings: Settings) -> str:
    """A digest of settings that does not depend on their order."""
    text = json.dumps(settings.tables, sort_keys=True)
    if networks(settings.tables):
        text += repr(settings.problem)  # with the checksums of the files
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def admitted_at_site(policy: Policy) -> Admission:
    """Which code a site loads for a job."""

    def admit(kind: str, name: str) -> None:
        _refuse_files(name)
        policy.check_code(kind, name)

    return admit


def admitted_at_server(home: Path) -> Admission:
    """Which code the server loads for a job: its kit may have a policy too."""
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


def is_id(told: object) -> bool:
    """Whether this is the id of a job: FLARE takes it for a folder, and puts it into commands."""
    try:
        return str(uuid.UUID(str(told))) == told
    except ValueError:
        return False


def check_version(other: object, whose: str) -> None:
    """Refuse to run together with another version of fedloom."""
    own = version.__version__
    if not isinstance(other, str) or _series(other) != _series(own):
        told = f"fedloom {other}" if isinstance(other, str) else "no version of fedloom"
        raise RefusedError(
            f"{whose} has {told} and this end has fedloom {own}; the first two numbers must be "
            f"the same. Install the same version at both."
        )


def _series(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
