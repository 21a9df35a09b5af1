"""Heart disease at four hospitals: a real consortium, which comes with fedloom.

920 patients of Cleveland, Budapest, Zurich and Basel, and Long Beach, with 13 findings, and whether
a coronary vessel is narrowed by more than half (A. Janosi, W. Steinbrunn, M. Pfisterer and R.
Detrano, UCI, 1989, doi.org/10.24432/C52P4X, CC BY 4.0; `embedded/heart.txt` has the whole notice).

The preprocessing of `load("heart")`, in full:

- `slope`, `ca` and `thal`, which three of the hospitals hardly took, are left out, and then every
  row with a gap: 740 rows are left, 303, 261, 46 and 130, as in FLamby's Fed-Heart-Disease;
- chest pain (`cp`) and the electrocardiogram at rest (`restecg`) are words, one feature each; the
  other eight columns are numbers, standardised over the 740 rows;
- the class is 1 where the source has `num` > 0; the hospital is in the column `client`, to divide
  by.

With `missing="fill"` all 920 rows and 13 columns are there, and a gap is a feature of its own.
A cholesterol of 0, which all of Switzerland has, stands in the source and is left as it is.
"""

import dataclasses
import importlib.resources
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.tables import from_frame
from fedloom.parameters import check, one_of

if TYPE_CHECKING:
    import polars as pl

LABEL = "disease"
_SELDOM = ("slope", "ca", "thal")
_WORDS = {
    "cp": {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "no pain"},
    "restecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}


def heart_tables() -> "dict[str, pl.DataFrame]":
    """The raw tables of the four hospitals, with all gaps, as each would have them in a file.

    The column to predict is `disease`, "yes" or "no".
    """
    parts = _whole().partition_by("client", as_dict=True, maintain_order=True)
    return {str(name): frame.drop("client") for (name,), frame in parts.items()}


def read_heart(*, missing: str = "drop") -> Dataset:
    """The four hospitals as one dataset, with the hospital in the column `client`.

    Args:
        missing: "drop" for the 740 rows without gaps in ten columns; "fill" for all 920 rows and 13
            columns, where a gap counts as the mean or as none of the words, and is a feature.
    """
    check("heart", "missing", missing, one_of("drop", "fill"))
    frame = _whole()
    features = [name for name in frame.columns if name not in ("client", LABEL)]
    if missing == "drop":
        features = [name for name in features if name not in _SELDOM]
    made = from_frame(
        frame, source="heart", name="heart", label=LABEL, features=features, missing=missing
    )
    x = np.array(made.x)
    for place, name in enumerate(made.features):
        if name in frame.columns:  # a column of numbers, not a word or a gap
            x[:, place] = (x[:, place] - x[:, place].mean()) / x[:, place].std()
    return dataclasses.replace(made, x=x)


def _whole() -> "pl.DataFrame":
    import polars as pl

    file = importlib.resources.files("fedloom.data") / "embedded" / "heart.csv"
    frame = pl.read_csv(file.read_bytes())
    return frame.select(
        pl.col("hospital").alias("client"),
        *(_column(name) for name in frame.columns if name not in ("hospital", LABEL)),
        pl.when(pl.col(LABEL) > 0).then(pl.lit("yes")).otherwise(pl.lit("no")).alias(LABEL),
    )


def _column(name: str) -> "pl.Expr":
    import polars as pl

    if name not in _WORDS:
        return pl.col(name)
    words = _WORDS[name]
    return pl.col(name).replace_strict(list(words), list(words.values()), return_dtype=pl.String)
