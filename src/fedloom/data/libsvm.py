"""LIBSVM text: a label and `index:value` pairs on each line; what is not written is zero."""

from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data import labels
from fedloom.data.dataset import Dataset
from fedloom.data.growing import Growing
from fedloom.data.libsvm_text import parts
from fedloom.data.packed import bare_name, read_blocks
from fedloom.errors import DataError

_BLOCK = 2**20  # bytes of text that are taken apart at a time; more and less are slower


def read_libsvm(
    path: Path,
    *,
    test: Path | None = None,
    n_features: int | None = None,
    regression: bool | None = None,
) -> Dataset:
    """A Dataset with sparse features from LIBSVM text, plain or compressed.

    Indices begin at 1 and ascend. Rows with a label only are kept, blank lines, comments after `#`
    and `qid:` are not. The text is read in blocks, so that memory is needed for the numbers in it
    and not for the text.

    Args:
        path: The training rows.
        test: The test rows.
        n_features: How many features there are; by default the largest index found, which may be up
            to 100 million.
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

    fields = [Growing(dtype) for dtype in (np.float64, np.int64, np.int32, np.float64)]
    for part in parts(path, read_blocks(path, _BLOCK), n_features):
        for field, more in zip(fields, part, strict=True):
            field.extend(more)
    y, counts, indices, values = (field.array() for field in fields)
    if not len(y):
        raise DataError(f"{path}: the file must have at least one row; got none. Check the path.")
    ends = np.concatenate([[0], np.cumsum(counts)])
    if ends[-1] < 2**31:  # as SciPy has it where it can, at half the memory
        ends = ends.astype(np.int32)
    width = int(indices.max(initial=-1)) + 1 if n_features is None else n_features
    return csr_array((values, indices, ends), shape=(len(y), width)), y
