"""`fedloom predict MODEL DATA.csv`: a trained model on new rows."""

import argparse
from pathlib import Path

from fedloom.errors import DataError
from fedloom.experiments.predicting import predict
from fedloom.files import write_file


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="the folder of a run")
    parser.add_argument("data", metavar="DATA", type=Path, help="a CSV or Parquet file")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=".csv or .parquet; else to standard output"
    )
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    out: Path | None = arguments.out
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise DataError(f"{out}: --out must end in .csv or .parquet. Change the suffix.")
    table = predict(arguments.model, arguments.data)
    if out is None:
        print(table.write_csv(), end="")
        return 0
    write = table.write_parquet if out.suffix == ".parquet" else table.write_csv
    write_file(out, write, shared=True)
    print(f"{table.height} predictions in {out}")
    return 0
