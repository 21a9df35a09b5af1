"""What a site allows: the file `policy.toml` in its kit, which never leaves it.

data = "mine.parquet"            # this site's rows; `fedloom join --data` sets it
test = "held-out.parquet"        # rows on which metrics are taken
methods = ["fedavg"]             # the methods that may run here
problems = ["logistic"]          # the problems that may be posed
columns = ["age", "label"]       # the columns that may be used; without it, all of the table
min_sites = 3                    # an exchange with fewer sites is not answered
min_rows = 10                    # with fewer rows this site does not take part
min_batch = 10                   # nor where gradients are of fewer rows
secure_aggregation = true        # nor where the server sees single replies
metrics = false                  # nor where metrics are taken of its rows
metric_digits = 2                # metrics leave with so many digits
scores = true                    # scores of single rows may leave, for the metric auc
plain_ids = true                 # ids may leave in plain, to find the people whom parties share
clip = 1.0                       # replies are scaled down to this Euclidean norm
noise = 0.5                      # standard deviation of Gaussian noise, as a multiple of clip
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedloom.errors import FederationError, ParameterError, RefusedError, SettingsError
from fedloom.experiments.settings import RunSettings, Settings
from fedloom.files import write_text
from fedloom.hints import closest
from fedloom.parameters import Rule, anything, at_least, flag, param, parametrised, positive

POLICY = "policy.toml"
_names = Rule(
    lambda v: isinstance(v, list | tuple) and all(isinstance(name, str) for name in v),
    "a list of names",
    ["fedavg"],
)


@parametrised
class Policy:
    """A site's own rules."""

    data: str | None = param(anything, "path of this site's rows", default=None)
    test: str | None = param(anything, "path of rows to take metrics on", default=None)
    methods: tuple[str, ...] = param(_names, "methods that may run here", default=())
    problems: tuple[str, ...] = param(_names, "problems that may be posed", default=())
    columns: tuple[str, ...] | None = param(
        _names.or_none("all of the table"), "columns that may be used", default=None
    )
    min_sites: int = param(at_least(1), "sites without which no exchange is answered", default=3)
    min_rows: int = param(at_least(1), "rows without which it does not take part", default=10)
    min_batch: int = param(at_least(1), "rows of which a gradient must be", default=10)
    secure_aggregation: bool = param(
        flag, "whether the server may see sums of replies only", default=False
    )
    metrics: bool = param(flag, "whether metrics of this site's rows may leave", default=True)
    metric_digits: int | None = param(
        at_least(1).or_none("all of them"), "digits that metrics leave with", default=None
    )
    scores: bool = param(flag, "whether scores of single rows may leave", default=False)
    plain_ids: bool = param(flag, "whether ids may leave in plain", default=False)
    clip: float | None = param(
        positive.or_none("replies as they are"), "largest norm of a reply", default=None
    )
    noise: float | None = param(
        positive.or_none("no noise"), "deviation of the noise, as a multiple of clip", default=None
    )

    def __post_init__(self) -> None:
        if self.noise is not None and self.clip is None:
            raise ParameterError(
                f"Policy: noise must come with clip, which it is a multiple of; got noise = "
                f"{self.noise!r} alone. Add clip = 1.0."
            )

    def data_of(self, kit: Path) -> str:
        """Where the rows are."""
        if self.data is None:
            raise FederationError(f"{kit / POLICY} names no data. Start it with --data.")
        return self.data

    def check_method(self, key: str, problem: str) -> None:
        """Refuse a method or a problem that the owner has not allowed."""
        for what, given, allowed in (
            ("methods", key, self.methods),
            ("problems", problem, self.problems),
        ):
            if given not in allowed:
                raise RefusedError(
                    f"this site's policy allows the {what} {', '.join(allowed) or 'none'}; the job "
                    f"wants {given!r}. Its owner may add it to {what} in {POLICY}."
                )

    def check_demands(self, settings: Settings) -> None:
        """Refuse a job that does not protect replies as the owner demands."""
        batch = settings.run.options()["batch_size"]
        if self.secure_aggregation and not settings.federation.secure_aggregation:
            raise RefusedError(
                "this site's policy demands secure aggregation, and the job has none. Set "
                "secure_aggregation = true in [federation]."
            )
        vertical = settings.problem.kind == "vertical"  # its methods use all rows
        if not vertical and batch is not None and batch < self.min_batch:
            raise RefusedError(
                f"this site's policy wants gradients of at least {self.min_batch} rows; the job "
                f"has batch_size = {batch}. Raise it."
            )
        if not self.metrics and settings.run.metrics != ():
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
        due = isinstance(round, int) and 0 <= round <= run.rounds
        if not due or (round % run.eval_every and round != run.rounds):  # type: ignore[operator]
            raise RefusedError(
                f"metrics are taken every {run.eval_every} rounds up to round {run.rounds}, as the "
                f"settings say; got round {round!r}."
            )

    def coarsened(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Metrics with as many digits as the owner lets out."""
        if self.metric_digits is None:
            return dict(told)
        form = f".{self.metric_digits}g"
        return {
            name: float(format(value, form)) if isinstance(value, float) else value
            for name, value in told.items()
        }

    def check_columns(self, wanted: list[str]) -> None:
        """Refuse a job that reads a column that the owner has not allowed."""
        for column in wanted:
            if self.columns is not None and column not in self.columns:
                raise RefusedError(
                    f"this site's policy allows the columns {', '.join(self.columns)}; the job "
                    f"wants {column!r}. Its owner may add it to columns in {POLICY}."
                )

    def check_scores(self, metrics: Iterable[str] | None) -> None:
        """Refuse a job whose metrics need scores of single rows, where they may not leave."""
        if "auc" in (metrics or ()) and not self.scores:
            raise RefusedError(
                f"this site's policy lets no scores of rows leave; the job wants the metric 'auc', "
                f"which needs them. Choose another, or let its owner set scores = true in {POLICY}."
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
        if sites < self.min_sites:
            raise RefusedError(
                f"this site's policy answers where at least {self.min_sites} sites are asked; "
                f"here are {sites}. Ask more sites."
            )


def read_policy(kit: Path) -> Policy:
    """The policy of a kit."""
    path = kit / POLICY
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: a site needs its policy. Write one; docs/federation.md shows how."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}. Correct the file.") from error
    known = Policy.__dataclass_fields__
    for key in table:
        if key not in known:
            raise SettingsError(f"{path}: there is no setting {key!r}. {closest(key, known)}")
    try:
        return Policy(**table)
    except ParameterError as error:
        raise SettingsError(f"{path}: {error}") from error


def set_data(kit: Path, data: Path, test: Path | None = None) -> None:
    """Note in the policy where the site's rows are; the owner's other lines stay."""
    path = kit / POLICY
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for key, value in (("data", data), ("test", test)):
        if value is not None:
            lines = [line for line in lines if not re.match(rf"\s*{key}\s*=", line)]
            lines.append(_line(key, str(value)))
    write_text(path, "\n".join(lines) + "\n")


def policy_text(proposal: Mapping[str, Any]) -> str:
    """The policy that a fresh kit holds: the project's proposal, for the owner to change."""
    Policy(**proposal)  # a proposal that is none should fail here, not at the sites
    head = "# What this site allows. It is its owner's to change; docs/federation.md says how."
    table = {"methods": [], "problems": [], **proposal}
    return "\n".join([head, *(_line(key, value) for key, value in table.items())]) + "\n"


def _line(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value)}"  # texts, numbers and lists look the same in TOML
