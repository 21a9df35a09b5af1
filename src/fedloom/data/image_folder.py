"""Folders of pictures, PNG or JPEG: CLASS/file, or CLIENT/CLASS/file.

Pixels become float32 numbers from 0 to 1, with the channels last.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.folders import labelled
from fedloom.errors import DataError
from fedloom.parameters import Rule, at_least, check, flag

PICTURES = (".png", ".jpg", ".jpeg")
_pair = Rule(
    lambda v: isinstance(v, list | tuple) and len(v) == 2 and all(map(at_least(1).holds, v)),
    "a height and a width, whole numbers >= 1",
    [32, 32],
)


def read_image_folder(
    folder: Path,
    *,
    size: Sequence[int] | None = None,
    colour: bool = True,
    test: Path | None = None,
) -> Dataset:
    """A Dataset of the pictures in folders CLASS/ or CLIENT/CLASS/.

    Args:
        folder: The training pictures, .png or .jpg.
        size: Of pictures: the height and width to which all are brought, as in [32, 32]; by default
            they must have one size.
        colour: Of pictures: whether in colour, three channels, or in grey, one.
        test: A folder with the test pictures, laid out as the other.
    """
    check(str(folder), "size", size, _pair.or_none("as they are"))
    check(str(folder), "colour", colour, flag)
    resized = None if size is None else (size[0], size[1])
    found = labelled(folder, PICTURES)
    made = found.dataset(folder.name, _pixels(found.paths, resized, colour), None)
    if test is None:
        return made
    others = labelled(test, PICTURES)
    x = _pixels(others.paths, resized, colour, made.x.shape[1:])
    return dataclasses.replace(made, test=others.dataset(f"{folder.name} test", x, made))


def _pixels(
    paths: list[Path],
    resized: tuple[int, int] | None,
    colour: bool,
    wanted: tuple[int, ...] | None = None,
) -> np.ndarray:
    """All pictures in one array; where they are not resized, all must be as the first."""
    wanted = wanted or _picture(paths[0], resized, colour).shape
    rows = np.empty((len(paths), *wanted), np.float32)
    for row, path in zip(rows, paths, strict=True):
        picture = _picture(path, resized, colour)
        if picture.shape != wanted:
            raise DataError(
                f"{path}: all pictures must be of one size, {wanted[0]} x {wanted[1]} as the first "
                f"is; got {picture.shape[0]} x {picture.shape[1]}. Set size = "
                f"[{wanted[0]}, {wanted[1]}]."
            )
        np.divide(picture, 255, out=row, dtype=np.float32)
    return rows


def _picture(path: Path, size: tuple[int, int] | None, colour: bool) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(path) as picture:
            if picture.mode[0] in "IF":
                raise DataError(
                    f"{path}: a picture must have 8 bits a channel; got mode {picture.mode}. "
                    f"Convert it."
                )
            drawn = picture.convert("RGB" if colour else "L")
            if size is not None and drawn.size != size[::-1]:
                drawn = drawn.resize(size[::-1], Image.Resampling.BILINEAR)
            pixels = np.asarray(drawn)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path}: not a picture that can be read ({error}). Get a fresh copy, or remove it."
        ) from error
    return pixels if colour else pixels[..., None]
