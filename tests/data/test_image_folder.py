"""Folders of pictures."""

import numpy as np
import pytest
from PIL import Image

from data.messages import raises
from fedloom.data import load
from fedloom.errors import DataError, ParameterError

RED, GREY = (255, 0, 0), (51, 51, 51)


def picture(path, colour, size=(4, 6), mode="RGB"):
    """A picture of one colour, of so many pixels down and right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size[::-1], colour).save(path)


@pytest.fixture
def pets(tmp_path):
    picture(tmp_path / "pets" / "cat" / "1.png", RED)
    picture(tmp_path / "pets" / "cat" / "2.png", (51, 51, 51, 0), mode="RGBA")
    picture(tmp_path / "pets" / "dog" / "1.JPG", GREY)
    return tmp_path / "pets"


def test_folders_are_classes(pets):
    found = load(pets, test=pets)
    assert found.name == "pets" and found.x.shape == (3, 4, 6, 3) and found.x.dtype == np.float32
    assert list(found.labels) == ["cat", "dog"] and list(found.y) == [0, 0, 1]
    np.testing.assert_array_equal(found.x[0], np.broadcast_to([1, 0, 0], (4, 6, 3)))
    np.testing.assert_allclose(found.x[1:], 0.2, atol=0.01)
    np.testing.assert_array_equal(found.test.x, found.x)
    grey = load(pets, colour=False, size=[2, 3])
    assert grey.x.shape == (3, 2, 3, 1)
    np.testing.assert_allclose(grey.x[0], 76 / 255, atol=1e-6)  # 0.299 of red


def test_folders_above_the_classes_are_clients(tmp_path):
    for client in ("ann", "bob"):
        picture(tmp_path / client / "cat" / "1.png", RED)
    assert list(load(tmp_path).columns["client"]) == ["ann", "bob"]


def test_pictures_of_another_size_are_named_or_resized(pets, tmp_path):
    picture(pets / "dog" / "2.png", RED, (5, 5))
    with raises(DataError, pets / "dog" / "2.png", "4 x 6", "5 x 5", "size = [4, 6]"):
        load(pets)
    assert load(pets, size=[4, 6]).x.shape == (4, 4, 6, 3)
    picture(tmp_path / "small" / "cat" / "1.png", RED, (5, 5))
    with raises(DataError, "5 x 5", "got 4 x 6"):
        load(tmp_path / "small", test=pets)
    with raises(ParameterError, "size must be a height and a width", "32"):
        load(pets, size=32)


def test_a_damaged_file_is_named(pets):
    whole = (pets / "cat" / "1.png").read_bytes()
    for content in (whole[:50], b"", b"no picture"):
        (pets / "cat" / "3.png").write_bytes(content)
        with raises(DataError, pets / "cat" / "3.png", "not a picture that can be read"):
            load(pets)
    picture(pets / "cat" / "3.png", 7000, mode="I;16")
    with raises(DataError, pets / "cat" / "3.png", "8 bits a channel; got mode I;16"):
        load(pets)
    (pets / "cat" / "3.png").unlink()
    (pets / "cat" / "notes.pdf").write_bytes(b"")
    with raises(DataError, "notes.pdf", "must be one of .png, .jpg, .jpeg"):
        load(pets)
