"""A site of the federation: it looks at its policy first, then at its data, and answers letters.

The hub opens a conversation with `hello`, which brings the settings of the run, and the site says
how many rows it has and of which columns. `begin` tells it who the others are. Then come letters,
and at times the question how well a model does on the site's own rows. Everything goes as a text of
JSON for the small facts and bytes for arrays; the site refuses what its owner has not allowed.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedloom import data
from fedloom.algorithms.wrappers.private import sealed
from fedloom.data.dataset import Dataset
from fedloom.engines import evaluation, wire
from fedloom.engines.flare.job import Job
from fedloom.engines.flare.policy import read_policy
from fedloom.engines.flare.privacy import protect
from fedloom.engines.flare.shelf import Folder
from fedloom.engines.hub import Letter
from fedloom.engines.mapping import Plan
from fedloom.engines.outlines import bare_clients, lone, outline
from fedloom.engines.placement import keep_compiled_programs
from fedloom.engines.schema import schema
from fedloom.engines.secure.member import Member
from fedloom.engines.secure.sums import sums_of
from fedloom.engines.site import Site
from fedloom.errors import FederationError, RefusedError
from fedloom.federation import Federation, know
from fedloom.protocol import Algorithm
from fedloom.rows import Rows

Tree = Any
Facts = dict[str, Any]


class Desk:
    """Where the hub's calls arrive."""

    def __init__(self, kit: Path):
        self.kit = kit
        self.policy = read_policy(kit)
        self._lock = threading.Lock()  # calls may come in side by side
        self._double = False

    def call(self, verb: str, facts: str, body: bytes) -> tuple[str, bytes]:
        """Answer one call of the hub."""
        verbs: dict[str, Callable[[Facts, bytes], tuple[Facts, bytes]]] = {
            "hello": self._hello,
            "begin": self._begin,
            "letter": self._letter,
            "measure": self._measure,
            "ping": lambda facts, body: ({}, b""),
        }
        if verb == "ping":
            return "{}", b""  # also while a long letter is being answered
        if verb not in verbs:
            raise RefusedError(f"a site answers {', '.join(verbs)}; got {verb!r}. Ask for these.")
        with self._lock, self._precision():
            answer, data = verbs[verb](json.loads(facts), body)
        return json.dumps(answer), data

    @contextlib.contextmanager
    def _precision(self) -> Iterator[None]:
        with jax.enable_x64(self._double):
            yield

    def _hello(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Is this run allowed here, and what is there for it?"""
        self.job = Job(**facts)
        tables = self.job.tables
        self.policy.check_method(
            str(tables["algorithm"].get("key")), str(tables["problem"].get("kind"))
        )
        options = dict(tables["data"])
        self.policy.check_columns([options["label"], *options.get("features", ())])
        self.settings = self.job.settings
        self._double = self.settings.run.precision == "float64"
        keep_compiled_programs()
        self.train = self._read(self.policy.data, options)
        self.test = None if self.policy.test is None else self._read(self.policy.test, options)
        parts = [self.train, *([] if self.test is None else [self.test])]
        labels, counts = None, [len(self.train)]
        if self.train.labels is not None:
            labels = sorted({label for part in parts for label in _names(part)})
            own = np.array(_names(self.train), object)[self.train.y]
            counts = [int((own == label).sum()) for label in labels]
        return {
            "counts": counts,
            "shape": self.train.x.shape[1:],
            "features": self.train.features,
            "labels": labels,
        }, b""

    def _read(self, path: str | None, options: Facts) -> Dataset:
        if path is None:
            raise FederationError(
                f"{self.kit / 'policy.toml'} names no data. Start the site with --data."
            )
        dataset = data.load(Path(path), **options)
        self.policy.check_columns([name.partition("=")[0] for name in dataset.features])
        return dataset

    def _begin(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Take a place among the sites of the run."""
        self.policy.check_cohort(len(facts["names"]))
        labels = None if facts["labels"] is None else np.array(facts["labels"])
        run, algorithm = self.settings.run.options(), sealed(self.settings.algorithm)
        shape = tuple(facts["shape"])
        clients = bare_clients(facts["names"], facts["counts"], shape, labels)
        place = (self.settings.problem, clients)
        numbers = (run["batch_size"], run["precision"])
        train = _rows(self.train, labels)
        test = None if self.test is None else _rows(self.test, labels)
        group = lone(*place, facts["id"], train, test, *numbers)
        self.site = Site(
            facts["id"],
            algorithm,
            group,
            schema(algorithm, outline(*place, *numbers)),
            seed=run["seed"],
            shelf=Folder(self.kit / "states" / self.job.run),
        )
        self.fed = know(*place, run["precision"])
        self.member: Member | None = None
        if self.settings.federation.secure_aggregation:
            self.member = Member(
                facts["id"],
                float(self.fed.weights[facts["id"]]),
                sums_of(algorithm, outline(*place, *numbers)),
                self._protected,
                self.policy.check_cohort,
            )
        return {}, b""

    def _letter(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """One exchange of a round."""
        letter = letter_from(facts, body)
        self.policy.check_cohort(letter.cohort)
        if self.member is not None:
            return {}, self.member.reply_to(letter)  # a plain letter is refused: no phase is due
        return {}, wire.encode(self._protected(letter))

    def _protected(self, letter: Letter) -> Tree:
        return protect(self.site.answer(letter), self.policy.clip, self.policy.noise)

    def _measure(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """How the model, or what this site makes of it, does on the site's own rows."""
        like = jax.ShapeDtypeStruct((self.fed.layout.size,), self.fed.layout.dtype)
        model = wire.decode(body, like)
        state = self.site.state_after(tuple(facts["after"]))
        federation = Federation(self.fed, (self.site.group,))
        wanted = evaluation.Wanted(tuple(facts["metrics"]), (), ())
        raw = _measured(self.site.algorithm, federation, model, state, wanted, facts["value"])
        sizes = (self.site.group.test or self.site.group.train).sizes
        values = {
            name: float(value[0]) if sizes[0] or name == "value" else None
            for name, value in raw.items()
        }
        return values, b""


def _names(dataset: Dataset) -> list[Any]:
    """What a dataset's classes are called."""
    return [] if dataset.labels is None else dataset.labels.tolist()


def letter_from(facts: Facts, body: bytes) -> Letter:
    """A letter as it comes over the network."""
    after = facts.pop("after")
    return Letter(body=body, after=None if after is None else tuple(after), **facts)


def letter_facts(letter: Letter) -> Facts:
    """All of a letter but its body."""
    facts = letter._asdict()
    del facts["body"]
    return facts


def _rows(dataset: Dataset, labels: np.ndarray | None) -> Rows:
    """A site's rows, with classes numbered as in the whole federation."""
    y = dataset.y
    if labels is not None and dataset.labels is not None:
        y = np.searchsorted(labels, dataset.labels)[y]
    return Rows(np.asarray(dataset.x), y)


def _measured(
    algorithm: Algorithm, federation: Federation, model: Any, state: Tree, wanted: Any, value: bool
) -> dict[str, Any]:
    """The metrics of this one client, and the value of its function where that is wanted."""

    class Handed:
        """The method, where the hub has handed its model out already."""

        def model(self, hub: Any, fed: Any) -> Any:
            return hub

        def other_models(self, hub: Any, fed: Any) -> dict[str, Any]:
            return {}  # what the hub has beside its model stays there

        def __getattr__(self, name: str) -> Any:
            return getattr(algorithm, name)

    def measure(federation: Federation, model: Any, state: Tree) -> Any:
        states = (jax.tree.map(lambda leaf: leaf[None], state),)
        handed: Any = Handed()
        raw = evaluation.measure(handed, federation, model, states, Plan(None, None), wanted)
        (out,) = raw[evaluation.MAIN]["groups"]
        if value:
            out["value"] = federation.groups[0].objective(0).full_value(model)[None]
        return out

    return jax.tree.map(np.asarray, jax.jit(measure)(federation, model, state))
