"""`fedloom predict MODEL DATA.csv`: a trained model on new rows."""

import argparse
import sys
from pathlib import Path

from fedloom.cli.plain import prints_exactly
from fedloom.cli.trusting import add_trust
from fedloom.errors import DataError
from fedloom.experiments.predicting import predicted
from fedloom.files import free, write_file


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="the folder of a run, or a saved model's file"
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        help="a CSV or Parquet file; after a vertical run a folder, or a pattern in quotes such as "
        "'new/*.csv', with a file for each party",
    )
    parser.add_argument("--site", metavar="SITE", help="use this site's own model")
    parser.add_argument(
        "--keep",
        type=lambda text: tuple(filter(None, map(str.strip, text.split(",")))),
        default=(),
        metavar="COLUMN,...",
        help="columns of DATA, such as an id, to put before the predictions",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a .csv or .parquet file; by default standard output",
    )
    add_trust(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    out: Path | None = arguments.out
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise DataError(f"{out}: --out must end in .csv or .parquet. Change the suffix.")
    if out is not None:
        free(out)
    table, remarks = predicted(
        arguments.model,
        arguments.data,
        site=arguments.site,
        keep=arguments.keep,
        trust=arguments.trust,
    )
    for remark in remarks:
        print(f"note: {remark}", file=sys.stderr)
    if out is None:
        text = table.write_csv()
        if not prints_exactly(text):
            raise DataError(
                f"standard output is in {sys.stdout.encoding}, which lacks letters of this table. "
                f"Write it to a file: --out predictions.csv."
            )
        print(text, end="")
        return 0
    write = table.write_parquet if out.suffix == ".parquet" else table.write_csv
    write_file(out, write, shared=True)
    print(f"{table.height} predictions in {out}")
    return 0
