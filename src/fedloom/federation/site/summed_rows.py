"""The rows of a site's table over which sums were sent: always the same rows.

Sums with and without a row differ by that row, and the person who submits a run decides which rows
are held out. So a kit remembers for each table, by its content, the rows of the sums that left.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.checksums import digest, read_json, write_json
from fedloom.errors import RefusedError
from fedloom.files import locked

if TYPE_CHECKING:
    import polars as pl

FILE = "summed.json"


class SummedRows:
    """The rows that a run would sum, compared with those that were summed before."""

    def __init__(self, kit: Path, table: Path, train: "pl.DataFrame"):
        self.kit = kit
        self.table = digest(table.read_bytes())
        self.rows = digest("\n".join(sorted(map(repr, train.rows()))).encode())

    def check(self) -> None:
        """Refuse other rows than before."""
        if self._known().get(self.table, self.rows) != self.rows:
            raise RefusedError(
                "sums over other rows of this site's table were told before, and the difference "
                "would be about single rows. Hold out as before (test_fraction, seed and label in "
                "[data]), or let its owner choose test rows with --test."
            )

    def note(self) -> None:
        """Remember the rows, before sums leave."""
        with locked(self.kit):
            self.check()
            write_json(self.kit / FILE, {**self._known(), self.table: self.rows})

    def _known(self) -> dict[str, Any]:
        return read_json(self.kit / FILE) if (self.kit / FILE).exists() else {}
