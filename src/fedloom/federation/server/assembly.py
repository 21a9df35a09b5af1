"""The beginning of a run: say hello to every site, settle who takes part, and introduce them.

If something is wrong with a site, only that site is left out, as long as enough are left.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedloom import version
from fedloom.errors import FederationError, WireError
from fedloom.federation.job import Job
from fedloom.federation.server import claims
from fedloom.federation.server.claims import UnfitError
from fedloom.federation.server.columns import ColumnsAtServer
from fedloom.federation.server.course import Checkpoint
from fedloom.federation.server.rows import RowsAtServer
from fedloom.federation.server.sites import SiteError, Sites, TooFewError, by_reason, listed

Facts = dict[str, Any]


class Assembly:
    """The sites of a run, as they come together."""

    def __init__(
        self,
        job: Job,
        all: ColumnsAtServer | RowsAtServer,
        sites: Sites,
        note: Callable[[str], None],
    ):
        self.job = job
        self.all = all
        self.sites = sites
        self.note = note
        self.left_out: dict[str, str] = {}  # who does not take part, and why
        self.told: set[str] = set()  # of whom it was said
        self.noises: dict[str, tuple[float, float]] = {}  # noise and delta of sites that have some

    def gather(self, saved: Checkpoint | None, quorum: int | None) -> None:
        """Settle who takes part; after a restart, check that who took part still fits."""
        there = self._heard(
            {name: self._hello(name) for name in self.sites.names}, self._read_hello
        )
        if saved is not None and quorum is not None:
            self.all.restore(saved.roster)
            self.sites.min_sites = quorum
        else:
            self._settle(there)
            for text in self.all.found:
                self.note(text)
        names = self.all.roster.names
        told = {name: there[name].pop("noise") for name in there}
        self.noises = {name: noise for name, noise in told.items() if noise and name in names}
        self.sites.names = names
        away = {name: since for name, since in self.sites.lost.items() if name in names}
        self.sites.lost = away  # who never took part is not waited for
        self.sites.greet = self._greet
        known = [name for name in there if name in names]
        answers = self._heard(
            {name: self._introduction(name) for name in known}, self.all.read_begin
        )
        self.all.complete(answers)
        if saved is None:
            self._check_enough()
        self._tell()

    def _read_hello(self, text: str) -> Facts:
        return {**self.all.read_hello(text), "noise": claims.privacy(text)}

    def _settle(self, there: dict[str, Facts]) -> None:
        """Find out who fits; one that does not is left out."""
        order: Sequence[str] = self.job.federation.sites or sorted(there)
        while True:
            self._check_enough()
            try:
                self.all.settle({name: there[name] for name in order if name in there})
                return self._tell()
            except UnfitError as error:
                del there[error.site]
                self._leave_out(error.site, SiteError("RefusedError", str(error)))
            except TooFewError as error:
                raise FederationError(
                    f"{error}, and the run has not begun yet. Submit it again."
                ) from None

    def _check_enough(self) -> None:
        """Raise if too few sites take part; at the start the run does not wait for the others."""
        if len(self.sites.live) < self.sites.min_sites:
            raise FederationError(
                f"{len(self.sites.live)} of {len(self.sites.calls)} sites take part, and the run "
                f"needs {self.sites.min_sites}. {' '.join(_absences(self.left_out))}"
            )

    def _heard(
        self, questions: dict[str, tuple[str, Facts, bytes]], read: Callable[[str], Facts]
    ) -> dict[str, Facts]:
        """The answers of sites; a site without an answer, or with an invalid one, is left out."""
        heard: dict[str, Facts] = {}
        for name, answer in self.sites.ask_each(questions).items():
            try:
                if isinstance(answer, SiteError):
                    raise answer
                heard[name] = read(answer[0])
            except WireError as error:
                self._leave_out(name, SiteError("WireError", str(error)))
            except SiteError as error:
                self._leave_out(name, error)
        return heard

    def _leave_out(self, name: str, error: SiteError) -> None:
        self.sites.leave_out(name, error)
        self.left_out[name] = str(error)

    def _tell(self) -> None:
        """Note who is left out of a run that goes on; where it ends, its last word says so."""
        fresh = {name: why for name, why in self.left_out.items() if name not in self.told}
        for text in _absences(fresh):
            self.note(text)
        self.told |= fresh.keys()

    def _hello(self, name: str) -> tuple[str, Facts, bytes]:
        among = {"name": name, "sites": len(self.sites.calls)}  # the same whenever it is said
        facts = {"version": version.__version__, **among, **self.job._asdict()}
        return "hello", facts, b""

    def _introduction(self, name: str) -> tuple[str, Facts, bytes]:
        facts, body = self.all.introduction()
        return "begin", {"id": self.all.roster.names.index(name), **facts}, body

    def _greet(self, name: str) -> None:
        """A site that was left out is there again; its process may be another one."""
        for verb, facts, body in (self._hello(name), self._introduction(name)):
            self.sites.call(name, verb, facts, body, self.sites.timeout)
        self.note(f"{name} is back")


def _absences(left_out: Mapping[str, str]) -> list[str]:
    """Each reason once, with the sites that have it."""
    return [
        f"{listed(names)} {'do' if len(names) > 1 else 'does'} not take part: {why}"
        for why, names in by_reason(left_out).items()
    ]
