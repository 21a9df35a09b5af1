"""`fedloom coefficients RUN`: the coefficients of a linear model, by the columns of the tables."""

import argparse
import sys
from pathlib import Path

from fedloom.cli.output import show_table
from fedloom.cli.trusting import add_trust
from fedloom.deploy.linear import AT
from fedloom.errors import DataError
from fedloom.experiments.explaining import coefficients_of
from fedloom.files import free, write_file

_SHOWN = 40  # rows; a file has all


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run, or a model")
    parser.add_argument(
        "--site", metavar="SITE", help="show those of the model that this site uses"
    )
    parser.add_argument(
        "--local",
        action="store_true",
        help="also show those of a model for each site, trained on its rows alone; needs the data",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="write all of them to a file")
    add_trust(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    out: Path | None = arguments.out
    if out is not None and out.suffix != ".csv":
        raise DataError(f"{out}: --out must end in .csv. Change the suffix.")
    if out is not None:
        free(out)
    table = coefficients_of(
        arguments.run, site=arguments.site, local=arguments.local, trust=arguments.trust
    )
    for name in table.columns:
        if name.startswith(AT) and table[name].null_count() == table.height:
            print(
                f"note: the training rows of {name.removeprefix(AT)} lack one of the classes; it "
                f"has no model alone",
                file=sys.stderr,
            )
    if out is not None:
        write_file(out, table.write_csv, shared=True)
        print(f"{table.height} coefficients in {out}")
        return 0
    largest = table.sort(table["coefficient"].abs(), descending=True)
    show_table(largest.head(_SHOWN).to_dicts(), title="Coefficients, the largest first")
    if table.height > _SHOWN:
        print(f"and {table.height - _SHOWN} more; --out FILE.csv writes all")
    return 0
