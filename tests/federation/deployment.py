"""Real deployments for tests: a server and three sites as processes on loopback, TLS on."""

import contextlib
import threading
import time

from federation.harness import clients
from fedloom.federation.people import submission, trial
from fedloom.federation.processes import processes_of, start, stop

METHODS = ("fedavg", "scaffold", "decoupled_prox", "drfa", "ffmdr", "quped")
PROBLEMS = ("logistic", "auc", "personal", "vertical")
MAIN = (".server.process", ".site.process")  # the modules of the processes that a kit starts with
PEOPLE = {"member@fedloom.local": "member"}


@contextlib.contextmanager
def deployed(folder, methods=METHODS, problems=PROBLEMS, held=None, before=lambda made: None):
    """Three sites, with the harness's rows if no others are given; nothing is left running."""
    held = held or clients()
    made = trial.build(folder, held, methods=methods, problems=problems, people=PEOPLE)
    before(made)
    try:
        with trial.up(made):
            yield made
    finally:
        for kit in (made.server, *made.sites):
            assert not processes_of(kit), f"{kit.name} still runs"
            for process in _restarted.pop(kit, ()):
                process.wait()


class Follower:
    """`fedloom submit` in a thread of its own, while the test does harm to the deployment."""

    def __init__(self, made, settings, out, **options):
        self.notes, self.rounds = [], []
        self.result = self.error = None
        self._work = threading.Thread(
            target=self._follow, args=(made, settings, out), kwargs=options, daemon=True
        )
        self._work.start()

    def _follow(self, made, settings, out, **options):
        try:
            self.result = submission.follow(
                made.lead, settings, out, bar=self, say=self.notes.append, **options
            )
        except BaseException as error:
            self.error = error

    def advance(self, round, rate):
        self.rounds.append(round)

    def evaluated(self, row):
        pass

    def close(self):
        pass

    def await_round(self, round, seconds=90):
        until = time.monotonic() + seconds
        while not self.rounds or self.rounds[-1] < round:
            assert self.error is None, self.error
            assert time.monotonic() < until, f"round {round} was not reached: {self.notes}"
            time.sleep(0.05)

    def join(self, seconds=240):
        self._work.join(seconds)
        assert not self._work.is_alive(), f"the run did not end: {self.notes}"
        if self.error is not None:
            raise self.error
        return self.result


def first_process(kit):
    """The process that `fedloom join` or `fedloom serve` started."""
    return next(process for process in processes_of(kit) if _is_first(process))


def job_process(kit):
    """The process of the job that runs at a kit."""
    return next(process for process in processes_of(kit) if not _is_first(process))


def _is_first(process):
    return any(part.endswith(MAIN) for part in process.cmdline())


_restarted = {}  # by kit; a process that nobody holds any more is warned about


def restart(kit):
    stop(kit)
    _restarted.setdefault(kit, []).append(start(kit))
