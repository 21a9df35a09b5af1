"""LIBSVM text: a label and `index:value` pairs on each line; what is not written is zero.

scikit-learn's compiled reader takes the file in one go. It says neither the line nor the rule when
something is wrong, so only then is the text gone through again, line by line.
"""

import io
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.data.packed import bare_name, read_bytes
from fedloom.errors import DataError


def read_libsvm(
    path: Path,
    *,
    test: Path | None = None,
    n_features: int | None = None,
    regression: bool | None = None,
) -> Dataset:
    """A Dataset with sparse features from LIBSVM text, plain or compressed.

    Indices begin at 1 and ascend. Rows with a label only are kept, blank lines and comments after
    `#` are not.

    Args:
        path: The training rows.
        test: The test rows.
        n_features: How many features there are; by default the largest index found.
        regression: Whether the labels are numbers to predict; by default they are when some label
            is not a whole number.
    """
    x, values = _parse(path, n_features)
    y, classes = labels.encode(values, source=path, regression=regression)
    name = bare_name(path)
    if test is None:
        return Dataset(name, x, y, classes)
    test_x, test_values = _parse(test, n_features)
    width = max(x.shape[1], test_x.shape[1])
    x.resize(x.shape[0], width)
    test_x.resize(test_x.shape[0], width)
    test_y, _ = labels.encode(test_values, source=test, known=classes, regression=classes is None)
    return Dataset(name, x, y, classes, test=Dataset(f"{name} test", test_x, test_y, classes))


def _parse(path: Path, n_features: int | None) -> tuple[Any, np.ndarray]:
    """The features as a CSR array, and the labels as they are written."""
    from scipy.sparse import csr_array
    from sklearn.datasets import load_svmlight_file

    text = read_bytes(path)
    try:
        x, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=False)
    except (ValueError, OverflowError) as error:
        _explain(path, text, n_features, str(error))
    if not (np.isfinite(x.data).all() and np.isfinite(y).all()):
        _explain(path, text, n_features, "a number is not finite")
    if len(y) == 0:
        raise DataError(f"{path}: the file must have at least one row; got none. Check the path.")
    return csr_array(x), y


def _explain(path: Path, text: bytes, n_features: int | None, otherwise: str) -> NoReturn:
    """Raise the error that names the first line which breaks a rule."""
    for number, line in enumerate(text.splitlines(), start=1):
        fault = _fault(line.partition(b"#")[0].split(), n_features)
        if fault is not None:
            rule, found, advice = fault
            raise DataError(
                f"{path}, line {number}: {rule}; got {found.decode(errors='replace')!r}. {advice}"
            )
    raise DataError(f"{path}: {otherwise}. Check that the file is LIBSVM text.")


def _fault(fields: list[bytes], n_features: int | None) -> tuple[str, bytes, str] | None:
    """The first rule that a line breaks: the rule, what was found, what to do."""
    if fields and not _is_finite(fields[0]):
        return "a label must be a finite number", fields[0], "Correct the label."
    previous = 0
    for pair in fields[1:]:
        index, colon, value = pair.partition(b":")
        if not colon:
            return "a feature must be written index:value", pair, "Add the colon."
        if not index.isdigit() or not 1 <= int(index) < 2**31:
            return "an index must be a whole number from 1 to 2**31 - 1", pair, "Count from 1."
        if int(index) <= previous:
            return (
                "indices must ascend within a line",
                pair,
                f"It follows index {previous}: sort them.",
            )
        if n_features is not None and int(index) > n_features:
            rule = f"an index must not exceed n_features = {n_features}"
            return rule, pair, "Raise n_features, or leave it out."
        if not _is_finite(value):
            return (
                "a value must be a finite number",
                pair,
                "Correct the value, or leave the pair out.",
            )
        previous = int(index)
    return None


def _is_finite(text: bytes) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
