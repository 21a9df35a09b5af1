"""What a site allows, and what it says to a job that wants more.

The owner writes it down in `policy.toml`, which never leaves the site (`policy_file.py` reads it):

data = "mine.parquet"            # this site's rows; `fedloom join --data` sets it
test = "held-out.parquet"        # rows on which metrics are taken
methods = ["fedavg"]             # the methods that may run here
problems = ["logistic"]          # the problems that may be posed
parts = ["their_network"]        # models, regularisers, ... of other packages that may be used
network_mb = 20                  # networks of PyTorch up to so many megabytes may be computed
features = ["age", "pressure"]   # the columns that may be learned from
labels = { ill = ["no", "yes"], days = "numbers" }  # what may be predicted, with its values
id = "patient"                   # the column by which parties find the people they share
least_count = 5                  # a count or a word of fewer rows is not told
min_sites = 3                    # an exchange with fewer sites is not answered
min_rows = 10                    # with fewer rows this site does not take part
min_batch = 10                   # nor where gradients are of fewer rows
secret_batches = true            # which rows a gradient is of, nobody else can find by the seed
secure_aggregation = true        # nor where the server sees single replies
metrics = false                  # nor where metrics are taken of its rows
metric_digits = 2                # metrics leave with so many digits
metric_noise = 0.01              # and with Gaussian noise of this standard deviation
scores = true                    # scores of single rows may leave, for metrics such as auc
plain_ids = true                 # ids may leave in plain, to find the people whom parties share
clip = 1.0                       # replies are scaled down to this Euclidean norm
noise = 0.5                      # standard deviation of Gaussian noise, as a multiple of clip
epsilon = 8.0                    # the privacy budget of this site, over all runs
delta = 1e-5                     # and the delta at which it is counted
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedloom.errors import FederationError, ParameterError, RefusedError
from fedloom.experiments.addresses import networks
from fedloom.experiments.options import RunSettings
from fedloom.experiments.settings import Settings
from fedloom.metrics.ready import needing_scores
from fedloom.parameters import (
    Rule,
    at_least,
    between,
    flag,
    instance_of,
    names,
    param,
    parametrised,
    positive,
)
from fedloom.problems.vertical import Vertical
from fedloom.rules import text

POLICY = "policy.toml"
NUMBERS = "numbers"  # what a policy says of a label that is a number to predict
_names = names("fedavg")
_path = instance_of(str)._replace(text="a path", example="rows.csv").or_none("none")
_labels = Rule(
    lambda v: (
        isinstance(v, Mapping)
        and all(classes == NUMBERS or isinstance(classes, list) for classes in v.values())
    ),
    f'a table that gives each label its allowed values, or "{NUMBERS}"',
    {"ill": ["no", "yes"]},
)


@parametrised
class Policy:
    """A site's own rules; nothing is allowed that is not named."""

    data: str | None = param(_path, "path of this site's rows", default=None)
    test: str | None = param(_path, "path of the rows that metrics are taken on", default=None)
    methods: tuple[str, ...] = param(_names, "methods that may run here", default=())
    problems: tuple[str, ...] = param(_names, "problems that may be solved here", default=())
    parts: tuple[str, ...] = param(
        _names, "models, regularisers, metrics, ... of other packages that may be used", default=()
    )
    network_mb: int = param(
        at_least(0),
        "largest size in megabytes of a network that may come with a job; 0: none",
        default=0,
    )
    features: tuple[str, ...] = param(_names, "columns that may be learned from", default=())
    labels: Mapping[str, Any] | None = param(
        _labels.or_none("none"),
        "columns that may be predicted, with the values that may be disclosed",
        default=None,
    )
    id: str | None = param(
        text("id").or_none("none"), "the column by which parties find common people", default=None
    )
    least_count: int = param(at_least(1), "a count of fewer rows is not disclosed", default=5)
    min_sites: int = param(at_least(1), "an exchange with fewer sites is not answered", default=3)
    min_rows: int = param(at_least(1), "with fewer rows the site does not take part", default=10)
    min_batch: int = param(at_least(1), "gradients must be of at least this many rows", default=10)
    secret_batches: bool = param(
        flag, "whether batches are drawn by a secret of this site, not by the seed", default=False
    )
    secure_aggregation: bool = param(
        flag, "whether the server may see only sums of replies", default=False
    )
    metrics: bool = param(flag, "whether metrics of this site's rows may leave", default=True)
    metric_digits: int | None = param(
        at_least(1).or_none("all of them"),
        "number of digits to which metrics are rounded",
        default=None,
    )
    metric_noise: float | None = param(
        positive.or_none("none"), "standard deviation of the noise on metrics", default=None
    )
    scores: bool = param(flag, "whether scores of single rows may leave", default=False)
    plain_ids: bool = param(flag, "whether ids may leave unencrypted", default=False)
    clip: float | None = param(
        positive.or_none("replies as they are"), "largest norm of a reply", default=None
    )
    noise: float | None = param(
        positive.or_none("no noise"),
        "standard deviation of the noise on replies, as a multiple of clip",
        default=None,
    )
    epsilon: float | None = param(
        positive.or_none("no budget"), "privacy budget of all replies together", default=None
    )
    delta: float = param(between(0, 1), "the delta of the budget", default=1e-5)

    def __post_init__(self) -> None:
        if self.noise is not None and self.clip is None:
            raise ParameterError(
                f"Policy: noise must come with clip, which it is a multiple of; got noise = "
                f"{self.noise!r} alone. Add clip = 1.0."
            )
        if self.epsilon is not None and self.metrics:
            raise ParameterError(
                f"Policy: epsilon must come with metrics = false, because metrics would tell more "
                f"than the budget counts; got epsilon = {self.epsilon!r}. Add metrics = false."
            )

    def data_of(self, kit: Path) -> str:
        """Where the rows are."""
        if self.data is None:
            raise FederationError(f"{kit / POLICY} names no data. Start it with --data.")
        return self.data

    def check_method(self, key: str, problem: str) -> None:
        """Refuse a method or a problem that the owner has not allowed."""
        self._check_named("methods", [key], self.methods)
        self._check_named("problems", [problem], self.problems)

    def check_networks(self, tables: dict[str, Any]) -> None:
        """Refuse networks that come with a job and are larger than the owner allows."""
        size = sum(len(str(table.get("data"))) for table in networks(tables))
        if size * 3 / 4 > self.network_mb * 1e6:
            raise RefusedError(
                f"this site's policy allows networks of up to {self.network_mb} MB to come with a "
                f"job; this one has {size * 3 / 4e6:.1f} MB. Its owner may raise network_mb in "
                f"{POLICY}."
            )

    @staticmethod
    def field_of(kind: str) -> str:
        """The setting that names things of a kind."""
        return {"algorithms": "methods", "problems": "problems"}.get(kind, "parts")

    def named(self, kind: str) -> tuple[str, ...]:
        """The names of a kind that the owner has allowed."""
        return getattr(self, self.field_of(kind))

    def check_code(self, kind: str, name: str) -> None:
        """Refuse to load code of others that the owner has not named."""
        self._check_named(self.field_of(kind), [name], self.named(kind))

    def check_features(self, wanted: Iterable[str]) -> None:
        """Refuse to learn from a column that the owner has not allowed."""
        self._check_named("features", wanted, self.features)

    def check_table(self, columns: Iterable[str]) -> None:
        """Refuse to learn from all columns of a table where the owner has not allowed all.

        Which these are is not told: the job has named none of them.
        """
        if not set(columns) <= set(self.features):
            raise RefusedError(
                f"this site's table has columns that its policy does not allow, and the job wants "
                f"all but those that it names. Name the others in [data], with features or ignore, "
                f"or let its owner add them to features in {POLICY}."
            )

    def check_label(self, wanted: str) -> None:
        """Refuse to predict a column that the owner has not allowed, before it is read."""
        self._check_named("labels", [wanted], self.labels or ())

    def check_id(self, wanted: str) -> None:
        """Refuse to look for common people by a column that the owner has not allowed."""
        self._check_named("id", [wanted], () if self.id is None else (self.id,))

    def _check_named(self, field: str, wanted: Iterable[str], allowed: Iterable[str]) -> None:
        for name in wanted:
            if name not in allowed:
                raise RefusedError(
                    f"this site's policy allows the {field} {', '.join(allowed) or 'none'}; the "
                    f"job wants {name!r}. Its owner may add it to {field} in {POLICY}."
                )

    def check_classes(self, label: str, classes: Iterable[Any] | None) -> None:
        """Refuse to tell values of a label that the owner has not allowed; None: numbers."""
        allowed = (self.labels or {})[label]
        if (classes is None) != (allowed == NUMBERS):
            kinds = ("numbers to predict", "classes")
            wants, has = kinds if classes is None else kinds[::-1]
            raise RefusedError(
                f"this site's policy has the label {label!r} as {has}, and the job would take it "
                f"as {wants}. State it with regression in [data], or let its owner change labels "
                f"in {POLICY}."
            )
        if classes is not None and not {str(name) for name in classes} <= set(map(str, allowed)):
            raise RefusedError(
                f"the label {label!r} has values here that this site's policy does not list, and "
                f"they would be disclosed. Its owner may add them to labels in {POLICY}."
            )

    def check_demands(self, settings: Settings) -> None:
        """Refuse a job that does not protect replies as the owner demands."""
        batch = settings.options()["batch_size"]
        if self.secure_aggregation and not settings.federation.secure_aggregation:
            raise RefusedError(
                "this site's policy demands secure aggregation, and the job has none. Set "
                "secure_aggregation = true in [federation]."
            )
        vertical = isinstance(settings.problem, Vertical)  # its replies are of single rows
        if not vertical and batch is not None and batch < self.min_batch:
            raise RefusedError(
                f"this site's policy wants gradients of at least {self.min_batch} rows; the job "
                f"has batch_size = {batch}. Raise it."
            )
        if not self.metrics and settings.metrics != ():
            raise RefusedError(
                "this site's policy lets no metrics leave; the job takes some. Set metrics = [] "
                "in [run]."
            )

    def check_rows(self, rows: int) -> None:
        """Refuse to take part with so few rows that a reply would be about single ones."""
        if rows < self.min_rows:
            raise RefusedError(
                f"this site's policy wants at least {self.min_rows} rows to take part, and it has "
                f"fewer. Go on without it."
            )

    def check_metrics(self, run: RunSettings, round: object) -> None:
        """Refuse to take metrics where the owner forbids it, or in a round that is not due."""
        if not self.metrics:
            raise RefusedError("this site's policy lets no metrics leave.")
        due = type(round) is int and 0 <= round <= run.rounds
        if not due or (round % run.eval_every and round != run.rounds):  # type: ignore[operator]
            raise RefusedError(
                f"metrics are taken every {run.eval_every} rounds up to round {run.rounds}, as the "
                f"settings say; got round {round!r}."
            )

    def check_scores(self, metrics: Iterable[str] | None) -> None:
        """Refuse a job whose metrics need scores of single rows, where they may not leave."""
        for name in needing_scores(metrics or ()):
            if not self.scores:
                raise RefusedError(
                    f"this site's policy lets no scores of rows leave; the job wants the metric "
                    f"{name!r}, which needs them. Choose another, or let its owner set scores = "
                    f"true in {POLICY}."
                )
            self.check_exact(f"the metric {name!r} is")

    def check_exact(self, what: str) -> None:
        """Refuse metrics made of scores elsewhere, where the owner wants them noisy or rounded."""
        if self.metric_noise is not None or self.metric_digits is not None:
            raise RefusedError(
                f"this site's policy lets metrics leave with noise or rounded, and {what} made of "
                f"scores of rows, which leave as they are. Name others, or none, in metrics of "
                f"[run], or let its owner take metric_noise and metric_digits out of {POLICY}."
            )

    def check_plain_ids(self) -> None:
        """Refuse to send ids in plain where the owner has not allowed it."""
        if not self.plain_ids:
            raise RefusedError(
                f"this site's policy lets no ids leave in plain. Join with join = 'private' in "
                f"[data], or let its owner set plain_ids = true in {POLICY}."
            )

    def check_cohort(self, sites: int) -> None:
        """Refuse an exchange in which a reply would be one of too few."""
        if type(sites) is not int or sites < self.min_sites:
            raise RefusedError(
                f"this site's policy answers where at least {self.min_sites} sites are asked; "
                f"here are {sites}. Ask more sites."
            )
