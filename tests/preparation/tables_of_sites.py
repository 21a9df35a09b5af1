"""Small tables of two sites, with gaps, keys and dates."""

import numpy as np
import polars as pl

from fedloom.preparation import SiteTable


def frame(rows, seed, words=("red", "blue"), gaps=0.0):
    rng = np.random.default_rng(seed)

    def with_gaps(values):
        return [None if rng.random() < gaps else value for value in values]

    height = rng.normal(1e6 + seed, 3, rows)
    return pl.DataFrame(
        {
            "height": with_gaps(height.tolist()),
            "colour": [
                None if rng.random() < gaps else str(rng.choice(words)) for _ in range(rows)
            ],
            "flag": rng.integers(0, 2, rows).astype(bool),
            "sick": rng.integers(0, 2, rows),
        }
    )


def site(name, train, test=None):
    return SiteTable(name, f"{name}.csv", train, train.clear() if test is None else test)


NORTH, SOUTH = frame(30, 0), frame(12, 5, ("red", "grün"), gaps=0.3)
SITES = [site("north", NORTH), site("south", SOUTH)]


def write(folder, **tables):
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")
    return folder


def with_keys(table, seed):
    """The table with keys of three types and a date, which is a key in all but its repetitions."""
    rng = np.random.default_rng(seed)
    rows = len(table)
    day = pl.Series(rng.integers(0, 4 * rows, rows)).cast(pl.Int32).cast(pl.Date)
    return table.with_columns(
        patient=pl.Series(rng.permutation(10**6)[:rows]),
        file=pl.Series([f"{seed}/{i}" for i in range(rows)]),
        admitted=day,
        age=pl.Series(rng.integers(20, 90, rows)),
    )


KEYED = {"north": with_keys(frame(60, 0), 0), "south": with_keys(frame(25, 5), 5)}


def keyed(folder, suffix):
    folder.mkdir()
    for name, table in KEYED.items():
        getattr(table, f"write_{suffix}")(folder / f"{name}.{suffix}")
    return str(folder)
