"""IDX files and CIFAR-10, made small."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image

from data.messages import raises
from fedloom.data.images import read_cifar10, read_cifar10_tiles, read_idx, read_idx_images
from fedloom.errors import DataError


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (4, 28, 28), np.uint8)


def test_idx_images(tmp_path, pixels):
    images, labels = tmp_path / "images.gz", tmp_path / "labels"
    images.write_bytes(gzip.compress(idx(pixels)))
    labels.write_bytes(idx(np.array([3, 0, 2, 3])))
    found = read_idx_images(images, labels)
    assert found.x.shape == (4, 28, 28, 1)
    assert found.x.dtype == np.float32
    np.testing.assert_allclose(found.x[..., 0], pixels / 255, rtol=1e-6)
    np.testing.assert_array_equal(found.y, [3, 0, 2, 3])
    np.testing.assert_array_equal(found.labels, [0, 1, 2, 3])
    labels.write_bytes(idx(np.array([3, 0, 2])))
    with raises(DataError, labels, "each of the 4 images", "got 3"):
        read_idx_images(images, labels)
    labels.write_bytes(idx(np.array([3, 0, 2, 11])))
    with raises(DataError, labels, "from 0 to 9", "got 11"):
        read_idx_images(images, labels, classes=np.arange(10))


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (lambda raw: raw[:-1], ("promises 4 x 28 x 28", "3152 bytes", "got 3151", "cut short")),
        (lambda raw: raw + b"x", ("3152 bytes", "got 3153")),
        (lambda raw: raw[:9], ("got 9", "cut short")),
        (lambda raw: b"", ("must begin with 00 00 08 03", "got ''")),
        (lambda raw: b"\x00\x00\x08\x01" + raw[4:], ("must begin with 00 00 08 03", "00 00 08 01")),
        (lambda raw: b"\x00\x00\x0d\x03" + raw[4:], ("must begin with 00 00 08 03", "00 00 0d 03")),
    ],
)
def test_damaged_idx_files_are_named(tmp_path, pixels, damage, parts):
    path = tmp_path / "images"
    path.write_bytes(damage(idx(pixels)))
    with raises(DataError, path, *parts):
        read_idx(path, 3)


def archive(path, batches):
    with tarfile.open(path, "w:gz") as files:
        for name, raw in batches.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(raw)
            files.addfile(member, io.BytesIO(raw))
    return path


def records(rng, count):
    """Labels, pictures with channels last, and the bytes of the binary version."""
    y = rng.integers(0, 10, count).astype(np.uint8)
    x = rng.integers(0, 256, (count, 32, 32, 3), np.uint8)
    planes = x.transpose(0, 3, 1, 2).reshape(count, -1)
    return y, x, np.concatenate([y[:, None], planes], axis=1).tobytes()


@pytest.fixture
def batches():
    rng = np.random.default_rng(1)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {name: records(rng, 2) for name in names}


def test_cifar_as_published(tmp_path, batches):
    path = archive(tmp_path / "c.tar.gz", {name: raw for name, (_, _, raw) in batches.items()})
    found = read_cifar10(path)
    assert found.x.shape == (10, 32, 32, 3)
    np.testing.assert_allclose(found.x[2:4], batches["data_batch_2"][1] / 255, rtol=1e-6)
    np.testing.assert_array_equal(found.y[2:4], batches["data_batch_2"][0])
    np.testing.assert_allclose(found.test.x, batches["test_batch"][1] / 255, rtol=1e-6)
    assert list(found.labels[[0, 9]]) == ["aeroplane", "lorry"]


def test_cifar_tiles_are_the_same_pictures(tmp_path, batches):
    for name, (_, x, _) in batches.items():
        Image.fromarray(np.concatenate(list(x), axis=1)).save(
            tmp_path / f"{name}.webp", lossless=True, exact=True
        )
    train = [f"data_batch_{i}" for i in range(1, 6)]
    labels = tmp_path / "labels.npz"
    y = np.concatenate([batches[name][0] for name in train])
    np.savez(labels, train=y, test=batches["test_batch"][0])
    paths = [tmp_path / f"{name}.webp" for name in ("test_batch", *train)]
    published = read_cifar10(
        archive(tmp_path / "c.tar.gz", {name: raw for name, (_, _, raw) in batches.items()})
    )
    found = read_cifar10_tiles(labels, *paths)
    for ours, theirs in ((found, published), (found.test, published.test)):
        np.testing.assert_array_equal(ours.x, theirs.x)
        np.testing.assert_array_equal(ours.y, theirs.y)
    with raises(DataError, labels, "each of the 8 tiles", "got 10"):
        read_cifar10_tiles(labels, *paths[:-1])
    paths[0].write_bytes(b"no picture")
    with raises(DataError, paths[0], "not a picture"):
        read_cifar10_tiles(labels, *paths)
    labels.write_bytes(b"no arrays")
    with raises(DataError, labels, ".npz file"):
        read_cifar10_tiles(labels, *paths)


def test_damaged_cifar_archives_are_named(tmp_path, batches):
    whole = {name: raw for name, (_, _, raw) in batches.items()}
    with raises(DataError, "c.tar.gz", "data_batch_4.bin", "records of 3073", "got 6145"):
        read_cifar10(archive(tmp_path / "c.tar.gz", whole | {"data_batch_4": b"\x00" * 6145}))
    with raises(DataError, "c.tar.gz", "from 0 to 9", "got 12"):
        read_cifar10(archive(tmp_path / "c.tar.gz", whole | {"data_batch_4": b"\x0c" * 3073}))
    del whole["test_batch"]
    path = archive(tmp_path / "c.tar.gz", whole)
    with raises(DataError, path, "test_batch.bin", "binary version"):
        read_cifar10(path)
    path.write_bytes(path.read_bytes()[:2000])
    with raises(DataError, path, "unpacked", "fresh copy"):
        read_cifar10(path)
