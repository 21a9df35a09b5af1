"""The rows of a site's table of which words and sums were told: always the same rows.

Sums with and without a row differ by that row, and a word that `least_count` rows have is told
unless one of them is held out. The person who submits runs decides which rows are held out. So a
kit remembers for each table, by its content, the rows that something was told of.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.checksums import digest, read_json, write_json
from fedloom.errors import RefusedError
from fedloom.files import locked

if TYPE_CHECKING:
    import polars as pl

FILE = "summed.json"


def note_told_rows(kit: Path, table: Path, train: "pl.DataFrame") -> None:
    """Remember the rows, before anything of them is told; refuse others than before."""
    known, file = {}, kit / FILE
    content = digest(table.read_bytes())
    rows = digest("\n".join(sorted(map(repr, train.rows()))).encode())
    with locked(kit):
        if file.exists():
            known = read_json(file)
        if known.get(content, rows) != rows:
            raise RefusedError(
                "words or sums of other rows of this site's table were told before, and the "
                "difference would be about single rows. Hold out as before (test_fraction, seed "
                "and label in [data]), or let its owner put test rows into a file of their own, "
                "with --test."
            )
        write_json(file, {**known, content: rows})
