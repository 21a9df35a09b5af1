"""The division into training and test rows: one for all seeds, or one for each seed.

With one division the spread over seeds comes from the randomness of training only; with one for
each seed it also comes from the choice of the test rows.
"""

from collections.abc import Callable, Mapping

from fedloom.data.clients import Clients
from fedloom.data.parties import Holders
from fedloom.errors import DataError
from fedloom.rounds.given import check_clients

REDIVIDED = (
    "redivided"  # in `about` of a result that is kept: whether its seed has its own division
)


class Divisions:
    """The clients of each seed."""

    def __init__(self, clients: Holders | Callable[[int], Holders]):
        self.redivided = callable(clients)
        self._make = clients if callable(clients) else lambda seed: clients
        self._last: tuple[int, Holders] | None = None  # one is held at a time: data may be large
        self._names: tuple[str, ...] | None = None
        self._left_out: tuple[int, Mapping[str, str]] | None = None  # of the first seed
        if not callable(clients):
            check_clients("compare", clients)

    def of(self, seed: int) -> Holders:
        """The clients of a seed; all seeds have the same ones by name."""
        if self._last is None or self._last[0] != seed:
            made = self._make(seed)
            check_clients("compare: what clients(seed) returns", made)
            names = tuple(made.names)
            if self._names not in (None, names):
                raise DataError(
                    f"compare: every seed must have the same clients; seed {seed} has "
                    f"{len(names)}, others than the first. Divide so that their names stay."
                )
            if isinstance(made, Clients):
                self.check_left_out(seed, made.left_out)
            self._names, self._last = names, (seed, made)
        return self._last[1]

    def check_left_out(self, seed: int, left_out: Mapping[str, str]) -> None:
        """Refuse a division with other columns as features: their models are not to be averaged."""
        first, usual = self._left_out = self._left_out or (seed, left_out)
        for name in sorted(left_out.keys() ^ usual.keys()):
            out, used = (seed, first) if name in left_out else (first, seed)
            why = (left_out if name in left_out else usual)[name]
            raise DataError(
                f"compare: every seed must have the same columns as features; {name!r} is left out "
                f"for seed {out} ({why}), and not for seed {used}. Name it in categorical, "
                f"numeric or ignore; or list all columns to learn from in features."
            )

    def key(self, seed: int) -> int | None:
        """What seeds with the same division share."""
        return seed if self.redivided else None


def divisions_text(redivided: bool) -> str:
    """What the seeds of a comparison have of divisions, behind their number."""
    return "each with its own division" if redivided else "one division"
