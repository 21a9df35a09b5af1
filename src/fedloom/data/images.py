"""Images: the IDX files of MNIST and its kin, and CIFAR-10 as published or as lossless tiles.

Pixels become float32 numbers from 0 to 1, with the channels last.
"""

import math
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.packed import bare_name, read_bytes
from fedloom.errors import DataError

DIGITS = np.arange(10)
GARMENTS = np.array(
    "T-shirt,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,ankle boot".split(",")
)
THINGS = np.array("aeroplane,car,bird,cat,deer,dog,frog,horse,ship,lorry".split(","))
_UNSIGNED_BYTE = 8  # IDX's code for the type of the numbers
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE  # a label, then the red, green and blue planes


def read_idx(path: Path, axes: int) -> np.ndarray:
    """The bytes of an IDX file, plain or compressed, as an array with this many axes."""
    raw = read_bytes(path)
    magic = bytes([0, 0, _UNSIGNED_BYTE, axes])
    if raw[:4] != magic:
        raise DataError(
            f"{path}: an IDX file with {axes} axes of bytes must begin with {magic.hex(' ')}; got "
            f"{raw[:4].hex(' ')!r}. Check that images and labels are not interchanged."
        )
    start = 4 + 4 * axes
    shape = [int(n) for n in np.frombuffer(raw[4:start].ljust(4 * axes, b"\0"), ">u4")]
    promised = start + math.prod(shape)
    if len(raw) != promised:
        raise DataError(
            f"{path}: the header promises {' x '.join(map(str, shape))} numbers, {promised} bytes "
            f"in all; got {len(raw)}. The file is cut short or damaged: get a fresh copy."
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def read_idx_images(
    images: Path, labels: Path, *, classes: np.ndarray | None = None, test: Dataset | None = None
) -> Dataset:
    """A Dataset from IDX images and IDX labels.

    Args:
        images: The pictures, of shape rows x height x width.
        labels: Their classes.
        classes: What the classes are called; by default the numbers that occur.
        test: The test rows.
    """
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y):
        raise DataError(
            f"{labels}: there must be one label for each of the {len(x)} images of {images}; got "
            f"{len(y)}. Check that the two files belong together."
        )
    classes = np.arange(int(y.max(initial=0)) + 1) if classes is None else classes
    _check_labels(labels, y, len(classes))
    return Dataset(bare_name(images), _scaled(x[..., None]), y.astype(np.int64), classes, test=test)


def read_cifar10(archive: Path) -> Dataset:
    """CIFAR-10 from `cifar-10-binary.tar.gz`, the binary version as published."""

    def part(files: tarfile.TarFile, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        records = []
        for name in names:
            raw = _member(archive, files, f"cifar-10-batches-bin/{name}.bin")
            if len(raw) == 0 or len(raw) % _RECORD:
                raise DataError(
                    f"{archive}: {name}.bin must consist of records of {_RECORD} bytes; got "
                    f"{len(raw)} bytes. Get a fresh copy of the archive."
                )
            records.append(np.frombuffer(raw, np.uint8).reshape(-1, _RECORD))
        rows = np.concatenate(records)
        planes = rows[:, 1:].reshape(-1, 3, _SIDE, _SIDE)
        return planes.transpose(0, 2, 3, 1), rows[:, 0]

    try:
        with tarfile.open(archive) as files:
            train = part(files, [f"data_batch_{number}" for number in range(1, 6)])
            return _cifar10(archive, train, part(files, ["test_batch"]))
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{archive}: the archive cannot be unpacked ({error}). Get a fresh copy of it."
        ) from error


def read_cifar10_tiles(labels: Path, test: Path, *train: Path) -> Dataset:
    """CIFAR-10 from lossless pictures, each a grid of tiles, row by row.

    Args:
        labels: A .npz file with the arrays `train` and `test`.
        test: The picture with the test images.
        train: The pictures with the training images, in order.
    """
    try:
        with np.load(labels, allow_pickle=False) as arrays:
            y, test_y = arrays["train"], arrays["test"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{labels}: must be a .npz file with the arrays train and test ({error}). "
            f"Get a fresh copy of it."
        ) from error
    x = np.concatenate([_tiles(path) for path in train])
    test_x = _tiles(test)
    for what, tiles, known in (("train", x, y), ("test", test_x, test_y)):
        if len(tiles) != len(known):
            raise DataError(
                f"{labels}: {what} must have one label for each of the {len(tiles)} tiles; got "
                f"{len(known)}. Check that all pictures are there."
            )
    return _cifar10(labels, (x, y), (test_x, test_y))


def _cifar10(
    source: Path, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> Dataset:
    def dataset(name: str, x: np.ndarray, y: np.ndarray, test: Dataset | None) -> Dataset:
        _check_labels(source, y, len(THINGS))
        return Dataset(name, _scaled(x), y.astype(np.int64), THINGS, test=test)

    return dataset("cifar10", *train, dataset("cifar10 test", *test, None))


def _member(archive: Path, files: tarfile.TarFile, name: str) -> bytes:
    try:
        member = files.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        raise DataError(
            f"{archive}: the archive must hold {name}; it does not. "
            f"Get the binary version of CIFAR-10, not the one for Python or Matlab."
        )
    return member.read()


def _tiles(path: Path) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"{path}: not a picture ({error}). Get a fresh copy of it.") from error
    height, width, _ = pixels.shape
    if height % _SIDE or width % _SIDE:
        raise DataError(
            f"{path}: height and width must be multiples of {_SIDE}; got {height} x {width}. "
            f"Get a fresh copy of the picture."
        )
    grid = pixels.reshape(height // _SIDE, _SIDE, width // _SIDE, _SIDE, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(-1, _SIDE, _SIDE, 3)


def _check_labels(source: Path, y: np.ndarray, classes: int) -> None:
    if y.max(initial=0) >= classes:
        raise DataError(
            f"{source}: a label must be from 0 to {classes - 1}; got {y.max()}. "
            f"The file is damaged or of another set: get a fresh copy."
        )


def _scaled(pixels: np.ndarray) -> np.ndarray:
    return np.divide(pixels, 255, dtype=np.float32)
