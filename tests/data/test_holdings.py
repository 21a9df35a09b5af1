"""Who holds what, as a table and as a picture."""

import numpy as np
import pytest
from PIL import Image

from data.messages import raises
from fedloom.data import from_arrays, load, partition, picture, table
from fedloom.errors import DataError


@pytest.fixture
def two():
    x = np.zeros((3, 1))
    return from_arrays(
        [(x, [7, 9, 9]), (x[:1], [7])], test=[(x[:2], [7, 7]), (x[:0], np.zeros(0, int))]
    )


def test_table(two):
    assert table(two).to_dict(as_series=False) == {
        "client": ["client 0", "client 1"],
        "rows": [3, 1],
        "test rows": [2, 0],
        "7": [1, 1],
        "9": [2, 0],
    }


def test_table_of_a_regression():
    clients = partition(load("diabetes"), "iid", clients=2)
    assert table(clients).to_dict(as_series=False) == {
        "client": ["client 0", "client 1"],
        "rows": [221, 221],
        "test rows": [0, 0],
    }


def colours_of(path):
    pixels = np.asarray(Image.open(path).convert("RGB")) @ np.array([65536, 256, 1])
    found, counts = np.unique(pixels, return_counts=True)
    return {f"#{colour:06X}": count for colour, count in zip(found, counts, strict=True)}


@pytest.mark.parametrize("clients", [10, 100])
def test_picture_shows_each_class_in_proportion(tmp_path, clients):
    held = partition(load("breast_cancer"), "iid", clients=clients)
    picture(held, tmp_path / "who.png")
    colours = colours_of(tmp_path / "who.png")
    share = colours["#332288"] / (colours["#332288"] + colours["#88CCEE"])
    assert abs(share - 212 / 569) < 0.03
    assert [path.name for path in tmp_path.iterdir()] == ["who.png"]


def test_picture_as_svg(tmp_path, two):
    picture(two, str(tmp_path / "who.svg"))
    text = (tmp_path / "who.svg").read_text()
    assert text.lstrip().startswith("<?xml")
    assert "#332288" in text
    assert "#88ccee" in text


def test_many_classes_have_a_colour_bar(tmp_path):
    x = np.zeros((62, 1))
    picture(from_arrays([(x, np.arange(62))]), tmp_path / "who.png")
    assert "#440154" in colours_of(tmp_path / "who.png")  # the first colour of viridis


def test_other_kinds_of_picture_are_refused(tmp_path, two):
    with raises(DataError, "who.gif", ".png or .svg", "'.gif'"):
        picture(two, tmp_path / "who.gif")
