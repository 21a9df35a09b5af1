"""Public images: MNIST and Fashion-MNIST, CIFAR-10, and FEMNIST by its writers."""

import dataclasses
import functools
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.entries import Copy, DatasetEntry, retitled
from fedloom.data.fetch import File
from fedloom.data.images import DIGITS, GARMENTS, read_cifar10, read_cifar10_tiles, read_idx_images
from fedloom.data.leaf import read_leaf
from fedloom.parameters import check, flag

_CHARACTERS = np.array(list("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))


def _read_idx(
    pictures: Path, labels: Path, test_pictures: Path, test_labels: Path, *, classes: np.ndarray
) -> Dataset:
    test = read_idx_images(test_pictures, test_labels, classes=classes)
    return read_idx_images(pictures, labels, classes=classes, test=test)


def _read_femnist(folder: Path, *, digits: bool = False) -> Dataset:
    """The characters by writer.

    Args:
        folder: What LEAF leaves: the folders train and test.
        digits: Whether to keep the rows with digits alone, of all 62 characters.
    """
    check("femnist", "digits", digits, flag)
    count = len(DIGITS) if digits else len(_CHARACTERS)
    dataset = read_leaf(folder, shape=(28, 28, 1), classes=np.arange(len(_CHARACTERS)))
    named, test = _characters(dataset, count), dataset.test and _characters(dataset.test, count)
    writers = np.unique(named.columns["client"])
    if digits and test is not None:  # who has no digits to train on is not tested
        test = _rows(test, np.isin(test.columns["client"], writers))
    title = f"femnist ({'digits, ' if digits else ''}{len(writers)} writers)"
    return retitled(dataclasses.replace(named, test=test), title)


def _characters(dataset: Dataset, count: int) -> Dataset:
    """The rows with one of the first so many characters."""
    return dataclasses.replace(_rows(dataset, dataset.y < count), labels=_CHARACTERS[:count])


def _rows(dataset: Dataset, chosen: np.ndarray) -> Dataset:
    rows = np.flatnonzero(chosen)
    columns = {name: column[rows] for name, column in dataset.columns.items()}
    return dataclasses.replace(dataset, x=dataset.x[rows], y=dataset.y[rows], columns=columns)


def _idx(
    name: str,
    description: str,
    licence: str,
    source: str,
    address: str,
    classes: np.ndarray,
    checksums: tuple[str, str, str, str],
) -> DatasetEntry:
    """An entry for a set that has the four files of MNIST."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = tuple(
        File(f"{name}/{part}-ubyte", f"{address}/{part}-ubyte.gz", checksum)
        for part, checksum in zip(names, checksums, strict=True)
    )
    reader = functools.partial(_read_idx, classes=classes)
    return DatasetEntry(name, description, licence, source, (Copy(files, reader, name),))


# The checksums are of the pictures, which are not compressed any further.
_CIFAR_TILES = tuple(
    File(f"cifar10/{name}", sha256=checksum)
    for name, checksum in (
        ("labels.npz", "100457827cb30b2869dbdce3761c5279714820de9a8c6fa4d0dcc7cbc3037527"),
        ("test_batch.webp", "ff9de491fc23a41297e1e58c42a552efb04f949758a185cc7541e5a51cf1c35f"),
        ("data_batch_1.webp", "0c540445580e2b4751a4fb5e79175f3eced765d47d186c46cf6aaa7a076c47d9"),
        ("data_batch_2.webp", "ecd97fbddf53a95c7a487a46490001fbae20af0d14e0978cf2a8c74001ef5eb5"),
        ("data_batch_3.webp", "577efcbfc9a4ea051e4f915841300a1c1943948d918318615797528bd1931ae3"),
        ("data_batch_4.webp", "a362cd3478100abaef253b26a1c6c0979ac43379b30b03c5c774900ed8f3025c"),
        ("data_batch_5.webp", "dca43ff04bd60b6081d36b131a960c0ab9d7a4c2f6be4dc305f4248586327eb4"),
    )
)

IMAGES = (
    _idx(
        "mnist",
        "70000 handwritten digits of 28 by 28 pixels",
        "LeCun, Cortes, Burges; usually given as CC BY-SA 3.0",
        "http://yann.lecun.com/exdb/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        DIGITS,
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    _idx(
        "fashion-mnist",
        "70000 pictures of ten kinds of garment, 28 by 28 pixels",
        "MIT, Zalando SE 2017",
        "https://github.com/zalandoresearch/fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        GARMENTS,
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    DatasetEntry(
        "cifar10",
        "60000 colour pictures of ten kinds of thing, 32 by 32 pixels",
        "none stated (Krizhevsky 2009)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            Copy(
                (
                    File(
                        "cifar10/cifar-10-binary.tar",
                        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                        packed=True,
                    ),
                ),
                read_cifar10,
            ),
            Copy(_CIFAR_TILES, read_cifar10_tiles),
        ),
    ),
    DatasetEntry(
        "femnist",
        "handwritten digits and letters, 62 classes, 28 by 28 pixels, by writer",
        "NIST SD19, a work of the US government; LEAF BSD-2",
        "https://leaf.cmu.edu",
        (
            Copy(
                (
                    File(
                        "femnist",
                        advice="Make it with LEAF: ./preprocess.sh -s niid -k 0 -t sample in "
                        "data/femnist of https://github.com/TalwalkarLab/leaf, and take the "
                        "folders train and test that it leaves in data.",
                    ),
                ),
                _read_femnist,
                options=("digits",),
            ),
        ),
    ),
)
