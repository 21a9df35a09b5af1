"""A site of the federation: it checks its policy, then reads its data, then answers letters.

The server first calls `hello`, with the settings of the run, and the site answers how many rows it
has. Parties that hold columns then `meet`, to find the people in common. `begin` tells who the
others are. Then come letters, and from time to time `measure`, which asks for metrics of a model;
at the end a site may `keep` its own model or share. Calls and answers are small facts as JSON, and
arrays as bytes. The site refuses whatever its owner has not allowed.
"""

import contextlib
import functools
import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.algorithms.wrappers.private import private_layer, sealed
from fedloom.checksums import read_json
from fedloom.errors import RefusedError
from fedloom.exchange import wire
from fedloom.exchange.expected import as_shapes, expected_exchanges
from fedloom.exchange.hub import Letter
from fedloom.exchange.secure.circle import circle_of
from fedloom.exchange.secure.identity import Identity
from fedloom.exchange.secure.ledger import Ledger
from fedloom.exchange.secure.member import Member
from fedloom.exchange.secure.sums import sums_of
from fedloom.exchange.site import Site, StateFolder
from fedloom.federation.job import Job, admitted_at_site, check_version
from fedloom.federation.kits import CARD
from fedloom.federation.letters import letter_from, packed, unpacked
from fedloom.federation.policy_file import read_policy
from fedloom.federation.roster import check_roster
from fedloom.federation.site.answers import Answers
from fedloom.federation.site.budget import Budget, noise_of
from fedloom.federation.site.columns import ColumnsAtSite
from fedloom.federation.site.protection import blurred, check_protectable, protect
from fedloom.federation.site.rows import RowsAtSite
from fedloom.federation.site.table import TableAtSite
from fedloom.federation.site.wording import MAY_LEAVE, in_other_words
from fedloom.federation.summed_metrics import KINDS, MEASURE, names_of, over_rows, part
from fedloom.measuring import evaluation
from fedloom.metrics.chosen import Wanted
from fedloom.problems.vertical import Vertical
from fedloom.rounds.compiling import kept_programs
from fedloom.types import Tree

Facts = dict[str, Any]
log = logging.getLogger("fedloom")


class SiteService:
    """Receives the calls of the server."""

    def __init__(self, kit: Path):
        self.kit = kit
        self.policy = read_policy(kit)
        self.budget = Budget(kit, self.policy)
        self._lock = threading.Lock()  # calls may come in side by side
        # Before `hello` there is no run, and before `begin` no place in it.
        self._held: ColumnsAtSite | RowsAtSite | None = None
        self._site: Site | None = None
        self._said: dict[str, tuple[str, bytes]] = {}
        self._answered: dict[str, tuple[Facts, bytes]] = {}
        self.member: Member | None = None
        self._double = False

    @property
    def held(self) -> ColumnsAtSite | RowsAtSite:
        """What this site holds, in the run."""
        if self._held is None:
            raise RefusedError("this site has not been told of a run. Say hello first.")
        return self._held

    @property
    def site(self) -> Site:
        """The client that this site is, in the run."""
        if self._site is None:
            raise RefusedError("this site has no place in the run yet. Begin first.")
        return self._site

    def call(self, verb: str, facts: str, body: bytes) -> tuple[str, bytes]:
        """Answer one call of the hub."""
        verbs: dict[str, Callable[[Facts, bytes], tuple[Facts, bytes]]] = {
            "hello": functools.partial(self._once, "hello", self._hello),
            "meet": lambda facts, body: self.held.meet(facts, body),
            "begin": functools.partial(self._once, "begin", self._begin),
            "letter": self._letter,
            "measure": self._measure,
            "keep": self._keep,
        }
        if verb == "ping":
            return "{}", b""  # also while a long letter is being answered
        if not isinstance(verb, str) or verb not in verbs:
            raise RefusedError(f"a site answers {', '.join(verbs)}; got {verb!r}. Ask for these.")
        with self._lock, kept_programs(), self._precision():
            try:
                answer, data = verbs[verb](json.loads(facts), body)
            except MAY_LEAVE:
                raise
            except Exception as error:  # its text may quote values or paths, which stay here
                log.exception("%s failed", verb)
                raise in_other_words(error) from None
        return json.dumps(answer), data

    @contextlib.contextmanager
    def _precision(self) -> Iterator[None]:
        with jax.enable_x64(self._double):
            yield

    def _once(
        self,
        verb: str,
        work: Callable[[Facts, bytes], tuple[Facts, bytes]],
        facts: Facts,
        body: bytes,
    ) -> tuple[Facts, bytes]:
        """Answer the first `hello` and the first `begin`; a repetition gets the same answer.

        This holds for refusals too: refusals of many different questions would disclose as much as
        answers.
        """
        told = json.dumps(facts, sort_keys=True)
        if self._said.setdefault(verb, (told, body)) != (told, body):
            raise RefusedError(
                f"this site has heard of a run already, and {verb} says otherwise now. "
                f"Another run needs a job of its own."
            )
        if verb not in self._answered:
            self._answered[verb] = work(facts, body)
        return self._answered[verb]

    def _hello(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Check that the run is allowed here, and say what this site has for it."""
        check_version(facts.pop("version", None), "the server")
        name, sites = facts.pop("name"), facts.pop("sites")
        self._check_name(name)
        self.policy.check_cohort(sites)
        self.job = Job(**facts)
        self.job.check()
        tables = self.job.tables
        self.policy.check_method(
            str(tables["algorithm"].get("key")), str(tables["problem"].get("kind"))
        )
        self.policy.check_networks(tables)
        self.settings = self.job.settings(admitted_at_site(self.policy))
        self.policy.check_demands(self.settings)
        self.noise = noise_of(self.policy, self.settings.algorithm)
        self.budget.check(self.noise)
        self._double = self.settings.run.precision == "float64"
        kind: type[ColumnsAtSite | RowsAtSite | TableAtSite] = RowsAtSite
        if isinstance(self.settings.problem, Vertical):
            kind = ColumnsAtSite
        elif "sites" in tables["data"]:
            kind = TableAtSite
        self._held = kind(name, self.kit, self.policy, self.settings)
        self.answers = Answers(self.kit / "answers" / self.job.run)
        privacy = None if self.noise is None else [self.noise, self.policy.delta]
        return {**self.held.hello(), "privacy": privacy}, b""

    def _check_name(self, name: object) -> None:
        """Refuse a wrong name: a site's training and test rows are divided by its name."""
        card = self.kit / CARD
        if not isinstance(name, str) or (card.exists() and read_json(card).get("name") != name):
            raise RefusedError("this site is called by another name than its kit has.")

    def _begin(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Take a place among the sites of the run."""
        held = self.held
        check_roster(facts)
        self.policy.check_cohort(len(facts["names"]))
        id = facts.pop("id")
        run, algorithm = self.settings.options(), self.settings.algorithm
        if isinstance(algorithm, Wrapper):
            algorithm = sealed(algorithm)
        bare, group, answer = held.begin(id, facts, body)
        whole = as_shapes(self.settings.problem, bare, run["batch_size"], run["precision"])
        said = expected_exchanges(algorithm, whole)
        if self.policy.clip is not None:
            check_protectable(said)
        store = StateFolder(self.kit / "states" / self.job.run)
        member = None
        if self.settings.federation.secure_aggregation:
            member = Member(
                id,
                float(whole.fed.weights[id]),  # by the problem's rule, from counts that all sign
                {s: (*kinds, KINDS) for s, kinds in sums_of(algorithm, whole).items()},
                self._summand,
                identity=Identity(self.kit),
                circle=circle_of(self.job.run, self.job.tables, facts, body),
                ledger=Ledger(store.path),
                least=self.policy.min_sites,
            )
        # All at once: a place without its part in secure sums would answer in plain.
        site = Site(id, algorithm, group, said, seed=self._seed(run["seed"]), store=store)
        self._site, self.member, self.fed = site, member, whole.fed
        return answer, b""

    def _seed(self, told: int) -> int:
        """The seed of this site's draws: of the run, or where the owner says so a secret.

        Of a known seed it is known which rows each batch has, and means over many of them, in
        secure sums too, are equations for the rows. Parties of a vertical run draw none alone.
        """
        if self.policy.secret_batches and isinstance(self.held, RowsAtSite):
            return secrets.randbits(64)
        return told

    def _letter(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """One exchange of a round."""
        question, site = packed(facts, body), self.site
        letter = letter_from(facts, body, self.settings.run.rounds)
        self._check_metrics_due(letter)
        self.policy.check_cohort(letter.cohort)
        if self.member is not None:
            return {}, self.member.reply_to(letter)  # a plain letter is refused: no phase is due
        wrapped = isinstance(site.algorithm, Wrapper)  # so that its replies may be private
        if self.policy.clip is None and not (wrapped and private_layer(site.algorithm)):
            return {}, wire.encode(self._protected(letter))
        return {}, self.answers.to(
            letter.round,
            f"exchange {letter.exchange}",
            question,
            lambda: wire.encode(self._protected(letter)),
        )

    def _check_metrics_due(self, letter: Letter) -> None:
        """Metrics are the last exchange of a round of secure sums, and no letter otherwise."""
        stage = self.site.expected["opening" if letter.round == 0 else "round"]
        if (letter.method == MEASURE) != (letter.exchange == len(stage) + 1) or (
            letter.method == MEASURE and self.member is None
        ):
            raise RefusedError(
                f"exchange {letter.exchange} of round {letter.round} does not ask for "
                f"{letter.method!r}. Both ends must run the same settings."
            )

    def _measure(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Metrics of a model here: only in the rounds that the settings name, once in each."""
        site, round = self.site, facts.pop("round", None)
        self.policy.check_metrics(self.settings.run, round)
        if self.member is not None:
            raise RefusedError("metrics of single sites would tell what secure sums hide.")
        question = packed(facts, body)

        def answer() -> bytes:
            told, scores = self.held.measure(site, self.fed, facts, body)
            return packed(blurred(told, self.policy), scores)

        return unpacked(self.answers.to(round, "metrics", question, answer))

    def _protected(self, letter: Letter) -> Tree:
        """A reply, protected as the policy says, and counted against the budget first."""
        if letter.method == MEASURE:
            return self._site_metrics(letter)
        self.budget.spend(self.job.run, self.noise)
        reply, summed = self.site.answer(letter), self.member is not None
        return protect(reply, self.policy.clip, self.policy.noise, summed=summed)

    def _summand(self, letter: Letter) -> Tree:
        """A reply to a secure sum; nan, which fits none, where it fails on this site's rows.

        Nobody may be told that it failed: it would be an answer of this site alone.
        """
        try:
            return self._protected(letter)
        except (*MAY_LEAVE, OSError):  # of the letter, the policy or the machine
            raise
        except Exception:
            log.exception("the reply to exchange %s of round %s", letter.exchange, letter.round)
            if letter.method == MEASURE:
                return np.full(2 * len(names_of(self._wanted())), np.nan)
            stage = self.site.expected["opening" if letter.round == 0 else "round"]
            like = stage[letter.exchange - 1].reply
            return jax.tree.map(lambda leaf: np.full(leaf.shape, np.nan), like)

    def _wanted(self) -> Wanted:
        """The metrics that the settings name."""
        return evaluation.choose_at_sites(self.settings.metrics, self.settings.problem)

    def _site_metrics(self, letter: Letter) -> Tree:
        """This site's part of a secure sum of metrics."""
        self.policy.check_metrics(self.settings.run, letter.round)
        wanted = self._wanted()
        told, _ = self.held.measure(self.site, self.fed, {"after": letter.after or ()}, letter.body)
        rows = over_rows(wanted, self.settings.problem)
        weight = float(self.fed.weights[self.site.id])
        return part(blurred(told, self.policy), names_of(wanted), rows, weight)

    def _keep(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """The run is over: keep this site's own model or share."""
        self.held.keep(self.job.run, self.site, self.fed, facts, body)
        return {}, b""
