"""A site's privacy budget: how much its replies have disclosed over all runs, and when to stop.

Every reply with noise is a Gaussian mechanism, under replacement of all rows of the site by others.
The file `budget.json` in the kit counts replies by the noise that they carried, each before it
leaves. Nothing bounds what a reply without noise discloses, so a site with a budget gives none.
Metrics are not covered: a policy with a budget forbids them.
"""

import contextlib
import datetime
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedloom.algorithms.wrappers.base import Wrapper
from fedloom.algorithms.wrappers.private import private_layer
from fedloom.checksums import read_json, write_json
from fedloom.errors import DataError, RefusedError
from fedloom.federation.policy import POLICY, Policy
from fedloom.files import locked
from fedloom.measuring.privacy_ledger import gaussian_epsilon
from fedloom.protocol import Algorithm

FILE = "budget.json"
_BARE = "none"  # in the place of a noise, for replies that carry none


def noise_of(policy: Policy, algorithm: Algorithm) -> float | None:
    """The deviation of the noise that replies leave this site with, in units of their bound."""
    layer = private_layer(algorithm) if isinstance(algorithm, Wrapper) else None
    own = float(layer.noise) if layer is not None and layer.at == "client" else 0.0
    return max(own, policy.noise or 0.0) or None


class Budget:
    """The account of one kit."""

    def __init__(self, kit: Path, policy: Policy):
        self.file = kit / FILE
        self.policy = policy

    def check(self, noise: float | None) -> None:
        """Refuse a run if the budget is spent, or if its replies would carry no noise."""
        if self.policy.epsilon is None:
            return
        if noise is None:
            raise RefusedError(
                f"this site has a privacy budget, and replies of this job would leave it without "
                f"noise. Use the wrapper 'private' with at = 'client', or let its owner set clip "
                f"and noise in {POLICY}."
            )
        with self._account() as runs:
            self._check_affordable(runs, noise)

    def spend(self, run: str, noise: float | None) -> None:
        """Count a reply that is about to leave; refuse it where the budget does not cover it."""
        with self._account() as runs:
            entry = runs.setdefault(run, {"began": _today(), "replies": {}})
            if noise is None and entry["replies"].get(_BARE):
                return  # more of them tell nothing that was bounded before
            if self.policy.epsilon is not None:
                self._check_affordable(runs, noise)
            key = _BARE if noise is None else repr(noise)
            entry["replies"][key] = entry["replies"].get(key, 0) + 1
            write_json(self.file, {"runs": runs})

    def _check_affordable(self, runs: dict[str, Any], noise: float | None) -> None:
        after = _replies(runs.values()) + Counter([noise])
        limit = self.policy.epsilon
        if limit is not None and _epsilon(after, self.policy.delta) > limit:
            raise RefusedError("this site's privacy budget is spent. It answers nothing more.")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, and one for all of them."""
        with self._account() as runs:
            table = [self._row(run, entry["began"], [entry]) for run, entry in runs.items()]
            return [*table, self._row("all runs", "", list(runs.values()))]

    def _row(self, run: str, began: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
        replies = _replies(entries)
        noises = sorted("none" if noise is None else f"{noise:g}" for noise in replies)
        epsilon = _epsilon(replies, self.policy.delta)
        shown = "unbounded" if math.isinf(epsilon) else epsilon
        return {
            "run": run,
            "began": began,
            "replies": sum(replies.values()),
            "noise": ", ".join(noises),
            "epsilon": shown,
        }

    @contextlib.contextmanager
    def _account(self) -> Iterator[dict[str, Any]]:
        """The runs so far; nobody else may write meanwhile, since jobs may run side by side."""
        with locked(self.file.parent):
            try:
                yield read_json(self.file)["runs"] if self.file.exists() else {}
            except DataError:
                raise RefusedError(
                    "the account of this site's privacy budget is damaged. Its owner must fix it."
                ) from None


def _replies(entries: Any) -> Counter[float | None]:
    """How many replies left, by the noise that they carried."""
    total: Counter[float | None] = Counter()
    for entry in entries:
        for noise, count in entry["replies"].items():
            total[None if noise == _BARE else float(noise)] += count
    return total


def _epsilon(replies: Counter[float | None], delta: float) -> float:
    if replies[None]:
        return math.inf
    return gaussian_epsilon({noise: n for noise, n in replies.items() if noise}, delta)


def _today() -> str:
    return datetime.date.today().isoformat()
