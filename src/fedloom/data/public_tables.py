"""Public tables: LIBSVM's binary sets, Adult and Covertype."""

import functools
from pathlib import Path

import numpy as np

from fedloom.data.adult import read_adult
from fedloom.data.dataset import Dataset
from fedloom.data.entries import Copy, DatasetEntry
from fedloom.data.fetch import File
from fedloom.data.frames import read_frame
from fedloom.data.libsvm import read_libsvm
from fedloom.errors import DataError

_UCI = "https://archive.ics.uci.edu"
_UCI_LICENCE = "CC BY 4.0 (UCI)"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"


def _read_libsvm(
    train: Path, test: Path | None = None, *, n_features: int, test_file: bool = True
) -> Dataset:
    """A set of LIBSVM's page.

    Args:
        train: The training rows.
        test: The test rows.
        n_features: How many features there are.
        test_file: Whether to read the file of test rows as well.
    """
    return read_libsvm(train, test=test if test_file else None, n_features=n_features)


def _read_covtype(path: Path, *, scale: bool = False) -> Dataset:
    """Covertype as LIBSVM's binary version has it: class 2, lodgepole pine, against the rest.

    Args:
        path: The file of UCI.
        scale: Whether to bring every feature to [0, 1] by its range over all rows, as in LIBSVM's
            scaled file; a feature that never changes becomes 0.
    """
    import polars as pl

    features = tuple(f"feature {number}" for number in range(1, 55))
    frame = read_frame(path, names=(*features, "class")).cast(pl.Float32, strict=False)
    for series in frame:
        if series.null_count():
            raise DataError(
                f"{path}: {series.name} must be a number in every row; in {series.null_count()} of "
                f"{frame.height} rows it is not. Get a fresh copy of the file."
            )
    x = frame.drop("class").to_numpy()
    if scale:
        low, high = x.min(0), x.max(0)
        x = (x - low) / np.where(high > low, high - low, 1)
    y = (frame["class"].to_numpy() == 2).astype(np.int64)
    return Dataset("covtype", x, y, np.array(["other", "class 2"]))


def _libsvm(
    name: str,
    description: str,
    licence: str,
    n_features: int,
    files: dict[str, str | None],
) -> DatasetEntry:
    """An entry for a set of LIBSVM's page, by the names under which it is published."""
    parts = tuple(
        File(f"libsvm/{published.removesuffix('.bz2')}", f"{_LIBSVM}/{published}", checksum)
        for published, checksum in files.items()
    )
    reader = functools.partial(_read_libsvm, n_features=n_features)
    options = ("test_file",) if len(parts) > 1 else ()
    copy = Copy(parts, reader, name, options)
    return DatasetEntry(name, description, licence, f"{_LIBSVM}.html", (copy,))


TABLES = (
    _libsvm(
        "a9a",
        "Adult with 123 binary features; does a person earn more than 50 000 dollars a year?",
        _UCI_LICENCE,
        123,
        {
            "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
            "a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
        },
    ),
    _libsvm(
        "w8a",
        "web pages by 300 binary keywords; 3 in 100 are of the class sought (Platt 1998)",
        "none stated",
        300,
        {
            "w8a": "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2",
            "w8a.t": "618929ecb01bebb841daec4cae4aa07b97832d29b08652452775598929547fde",
        },
    ),
    _libsvm(
        "ijcnn1",
        "IJCNN 2001 challenge, an engine that misfires; 22 features, 10 in 100 positive",
        "none stated",
        22,
        {
            "ijcnn1.bz2": "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f",
            "ijcnn1.t.bz2": "e7b0bbd518641980dc322746c6bc59d019d3153934e6258e48f9d8cfae2c4bb8",
        },
    ),
    _libsvm(
        "phishing",
        "11055 web sites, genuine or not, 68 features",
        _UCI_LICENCE,
        68,
        {"phishing": "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"},
    ),
    _libsvm(
        "mushrooms",
        "8124 mushrooms, edible or poisonous, 112 binary features",
        _UCI_LICENCE,
        112,
        {"mushrooms": "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"},
    ),
    _libsvm(
        "gisette",
        "handwritten 4 or 9, 5000 features scaled to [-1, 1] (NIPS 2003 challenge)",
        _UCI_LICENCE,
        5000,
        {"gisette_scale.bz2": None, "gisette_scale.t.bz2": None},
    ),
    DatasetEntry(
        "covtype",
        "581012 patches of forest by 54 features; is it lodgepole pine (class 2) or not?",
        _UCI_LICENCE,
        f"{_UCI}/dataset/31/covertype",
        (
            Copy(
                (
                    File(
                        "covtype/covtype.data",
                        f"{_UCI}/ml/machine-learning-databases/covtype/covtype.data.gz",
                        "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
                        packed=True,
                    ),
                ),
                _read_covtype,
                options=("scale",),
            ),
            Copy(
                (
                    File(
                        "covtype/covtype.20k.data",
                        sha256="55ff5c8510624a2fe57838017f96caf86914223f131572edd35a038f3e85e43e",
                    ),
                ),
                _read_covtype,
                "covtype (20k subset)",
                options=("scale",),
            ),
        ),
    ),
    DatasetEntry(
        "adult",
        "Adult with its 14 columns; does a person earn more than 50 000 dollars a year?",
        _UCI_LICENCE,
        f"{_UCI}/dataset/2/adult",
        (
            Copy(
                (
                    File(
                        "adult/adult.data",
                        f"{_UCI}/ml/machine-learning-databases/adult/adult.data",
                        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                    ),
                    File(
                        "adult/adult.test",
                        f"{_UCI}/ml/machine-learning-databases/adult/adult.test",
                        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                    ),
                ),
                read_adult,
            ),
        ),
    ),
)
