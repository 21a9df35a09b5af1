"""A site that holds rows: what it says about them, and how it measures a model on them."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import data
from fedloom.data.clients import Clients
from fedloom.data.dataset import Dataset
from fedloom.data.dates import raw_name
from fedloom.data.dialects import Dialect
from fedloom.data.frames import read_frame
from fedloom.deploy.taking import taken_at
from fedloom.errors import RefusedError
from fedloom.exchange import wire
from fedloom.exchange.expected import one_with_rows
from fedloom.exchange.site import Site
from fedloom.experiments.settings import Settings
from fedloom.federation.policy import Policy
from fedloom.federation.roster import Roster, check_listed
from fedloom.federation.site import protection
from fedloom.federation.site.influence import check_influence
from fedloom.federation.site.protection import SiteScores
from fedloom.federation.summed_metrics import check_one_weight
from fedloom.measuring import evaluation
from fedloom.metrics.chosen import Wanted
from fedloom.population import Fed, Federation, Group
from fedloom.preparation.encoding import Preparation, plain_encoding
from fedloom.preparation.tables import MOST_WORDS
from fedloom.protocol import Algorithm
from fedloom.pytrees import to_host
from fedloom.rounds.parts import Plan
from fedloom.rows import Rows
from fedloom.types import Array, Tree

Facts = dict[str, Any]
_OF_CSV = ("separator", "decimal", "encoding")


class RowsAtSite:
    """A site's own rows, in a run."""

    def __init__(self, name: str, kit: Path, policy: Policy, settings: Settings):
        policy.check_scores(settings.metrics)
        if settings.federation.secure_aggregation:
            wanted = evaluation.choose_at_sites(settings.metrics, settings.problem)
            check_one_weight(wanted, settings.problem)
        self.settings = settings
        self.kept = kit / "models"
        self.least = policy.least_count
        self.min_batch = policy.min_batch
        self.options = dict(settings.tables["data"])
        if self.options.get("event") or self.options.get("exposure"):
            raise RefusedError("labels that are pairs are not known over a network yet. Simulate.")
        policy.check_label(self.options["label"])
        policy.check_features(self.options.get("features", ()))
        _check_categories(self.options.get("categories", {}))
        policy.check_features(self.options.get("categories", ()))
        policy.check_features(self.options.get("dates", ()))
        if self.options.get("missing", "refuse") != "refuse":
            raise RefusedError(
                "missing in [data] would tell how many rows of this site's table have gaps, and of "
                "which class. Leave it out where all rows are complete, or prepare raw tables "
                "together, with sites in [data]."
            )
        self.train = self._read(policy, policy.data_of(kit))
        policy.check_rows(len(self.train))
        self.test = None if policy.test is None else self._read(policy, policy.test)

    def _read(self, policy: Policy, path: str) -> Dataset:
        """Read the table as far as the owner's policy allows."""
        options = {n: value for n, value in self.options.items() if n not in _OF_CSV}
        # Whatever the job says: an error would tell that a word occurs which it has not listed.
        options["others"] = "categories" in self.options
        dialect = Dialect(**{n: self.options.get(n) for n in _OF_CSV})
        frame = read_frame(
            Path(path), dialect=dialect, codes=tuple(self.options.get("categories", ()))
        )
        dates = options.get("dates") or {}
        if not options.get("features"):  # the owner's policy names them, so nothing is left out
            kept = (options["label"], "client", *dates)
            options["features"] = [name for name in frame.columns if name not in kept]
        dataset = data.load(frame, **options)
        columns = (_column_of(name, dataset) for name in dataset.features)
        there = {name: parts for name, parts in dates.items() if name in frame.columns}
        policy.check_table(raw_name(name, there) if there else name for name in columns)
        classes = None if dataset.labels is None else _names(dataset)
        policy.check_classes(self.options["label"], classes)
        for name, column in zip(dataset.features, np.asarray(dataset.x).T, strict=True):
            source = _column_of(name, dataset)
            told = source != name and source not in self.options.get("categories", ())
            if told and 0 < np.count_nonzero(column) < self.least:
                raise RefusedError(
                    f"the column {source!r} has words here that fewer than {self.least} rows hold, "
                    f"and they would be disclosed. Name its words with categories in [data]."
                )
        return dataset

    def hello(self) -> Facts:
        """How many rows there are of each class, and of which columns."""
        parts = [self.train, *([] if self.test is None else [self.test])]
        labels, counts = None, [len(self.train)]
        if self.train.labels is not None:
            labels = sorted({label for part in parts for label in _names(part)})
            own = np.array(_names(self.train), object)[self.train.y]
            of_each = [int((own == label).sum()) for label in labels]
            counts = protection.told_counts(of_each, self.least)
        return {
            "counts": counts,
            "shape": self.train.x.shape[1:],
            "features": self.train.features,
            "labels": labels,
            "tested": self.test is not None,
        }

    def meet(self, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Rows of numbers need no agreement."""
        raise RefusedError("this site has nothing to agree on before the run. Ask for letters.")

    def begin(self, id: int, facts: Facts, body: bytes) -> tuple[Clients, Group, Facts]:
        """Take a place among the sites of the run; the others are known by counts alone."""
        roster = Roster(**facts)
        told = self.hello()
        check_listed(roster, id, told["counts"], told["labels"], tuple(told["shape"]))
        bare = roster.bare()
        train = _rows(self.train, bare.labels)
        test = None if self.test is None else _rows(self.test, bare.labels)
        return bare, self._group(bare, id, train, test, roster.tested), {}

    def _group(self, bare: Clients, id: int, train: Rows, test: Rows | None, tested: bool) -> Group:
        if tested and test is None:
            test = Rows(train.x[:0], train.y[:0])  # metrics are of test rows, at all sites or none
        self.features = bare.train.x.shape[1:]
        self.labels = bare.labels
        run = self.settings.run.options()
        place = (self.settings.problem, bare, id, train, test)
        group = one_with_rows(*place, run["batch_size"], run["precision"])
        if (weights := group.problem.influences) is not None:
            mine = bare.of(id)
            here = [weights[c] for c in np.unique(mine.y)]
            check_influence(here, run["batch_size"] or len(mine.y), len(mine.y), self.min_batch)
        return group

    def measure(self, site: Site, fed: Fed, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """Measure the model, or this site's own model, on the site's own rows."""
        model, state = _handed(site, fed, facts, body)
        federation = Federation(fed, (site.group,))
        # The settings decide, which this site has agreed to, and not the hub's question.
        chosen = evaluation.choose_at_sites(self.settings.metrics, self.settings.problem)
        wanted = chosen._replace(of_the_whole=())
        value = "objective" in chosen.of_the_whole
        raw = to_host(_measured(site.algorithm, federation, model, state, wanted, value))
        rows = int((site.group.test or site.group.train).sizes[0])
        own = SiteScores(raw, rows, wanted, self.settings.problem)
        values = {
            name: float(value[0]) if rows >= self.least or name == "value" else None
            for name, value in raw.items()
        }
        scores = own.by_class(0 if self.labels is None else len(self.labels), self.least)
        counts = [len(part) for part in scores]
        told = {**values, **own.means(self.least), "scored": counts}
        return told, wire.encode(scores) if scores else b""

    def keep(self, run: str, site: Site, fed: Fed, facts: Facts, body: bytes) -> None:
        """Write this site's own model to a file in its kit."""
        model, state = _handed(site, fed, facts, body)
        own = taken_at(
            site.algorithm,
            site.group.objective(0),
            jnp.asarray(model),
            state,
            self.features,
            self.labels,
            self.encoding(),
        )
        own.save(self.kept / f"{run}.safetensors")

    def encoding(self) -> Preparation:
        """How new tables become rows as this site's did."""
        names = None if self.labels is None else self.labels.tolist()
        listed = tuple(self.train.columns)
        return plain_encoding(self.options["label"], names, self.train.features, listed)


def _check_categories(stated: Any) -> None:
    """Refuse lists of words for which, times this site's rows, there may be no room."""
    if not isinstance(stated, dict) or not all(
        isinstance(words, list | tuple)
        and len(words) <= MOST_WORDS
        and all(isinstance(word, str) for word in words)
        for words in stated.values()
    ):
        raise RefusedError(
            f"categories in [data] must give columns of words their words, at most {MOST_WORDS} "
            f"each. Shorten the lists, or leave the column out of features."
        )


def _handed(site: Site, fed: Fed, facts: Facts, body: bytes) -> tuple[Array, Tree]:
    """The model that the hub has sent, and the state that it concerns."""
    like = jax.ShapeDtypeStruct((fed.layout.size,), fed.layout.dtype)
    return wire.decode(body, like), site.state_after(tuple(facts["after"]))


def _column_of(feature: str, dataset: Dataset) -> str:
    """The column of the table that a feature was made of; `column=word` was made of words."""
    whole = [name for name in dataset.columns if feature == name or feature.startswith(f"{name}=")]
    return max(whole, key=len, default=feature)


def _names(dataset: Dataset) -> list[Any]:
    """What a dataset's classes are called."""
    return [] if dataset.labels is None else dataset.labels.tolist()


def _rows(dataset: Dataset, labels: np.ndarray | None) -> Rows:
    """A site's rows, with classes numbered as in the whole federation."""
    y = dataset.y
    if labels is not None and dataset.labels is not None:
        y = np.searchsorted(labels, dataset.labels)[y]
    return Rows(np.asarray(dataset.x), y)


class _Handed:
    """The method, where the hub has handed its model out already."""

    def __init__(self, algorithm: Algorithm):
        self.algorithm = algorithm

    def model(self, hub: Array, fed: Fed) -> Array:
        return hub

    def other_models(self, hub: Array, fed: Fed) -> dict[str, Array]:
        return {}  # what the hub has beside its model stays there

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)


@functools.partial(jax.jit, static_argnames=("wanted", "value"))
def _measured(
    algorithm: Algorithm,
    federation: Federation,
    model: Array,
    state: Tree,
    wanted: Wanted,
    value: bool,
) -> dict[str, Any]:
    """The metrics of this one client, and the value of its function where that is wanted."""
    states = (jax.tree.map(lambda leaf: leaf[None], state),)
    handed: Any = _Handed(algorithm)
    raw = evaluation.measure(handed, federation, model, states, Plan(None, None), wanted)
    (out,) = raw[evaluation.MAIN]["groups"]
    if value:
        out["value"] = federation.groups[0].objective(0).full_value(model)[None]
    return out
