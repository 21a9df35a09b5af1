"""CSV and Parquet tables."""

import gzip
import lzma

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from data.messages import raises
from fedloom.data import csv_files, load
from fedloom.data.frames import read_frame
from fedloom.data.tables import read_table
from fedloom.errors import DataError, ParameterError

TABLE = (
    "age,site,smoker,client,ill\n41,north,true,a,yes\n\n52,south,false,b,no\n63.5,north,true,a,no\n"
)


def write(folder, text, name="people.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def people(tmp_path):
    return write(tmp_path, TABLE)


def test_words_are_one_hot_and_numbers_stay(people):
    found = read_table(people, label="ill")
    assert found.name == "people"
    assert found.features == ("age", "site=north", "site=south", "smoker")
    np.testing.assert_array_equal(found.x, [[41, 1, 0, 1], [52, 0, 1, 0], [63.5, 1, 0, 1]])
    np.testing.assert_array_equal(found.labels, ["no", "yes"])
    np.testing.assert_array_equal(found.y, [1, 0, 0])


def test_raw_columns_are_kept(people):
    found = read_table(people, label="ill", features=["age"])
    assert found.x.shape == (3, 1)
    assert set(found.columns) == {"age", "site", "smoker", "client"}
    np.testing.assert_array_equal(found.columns["client"], ["a", "b", "a"])
    np.testing.assert_array_equal(found.columns["site"], ["north", "south", "north"])


def test_parquet_and_compressed_csv_agree_with_csv(tmp_path, people):
    expected = read_table(people, label="ill")
    pl.read_csv(people.read_bytes()).drop_nulls().write_parquet(tmp_path / "people.parquet")
    packed = write(tmp_path, lzma.compress(TABLE.encode()), "people.csv.xz")
    for path in (tmp_path / "people.parquet", packed):
        found = read_table(path, label="ill")
        assert found.name == "people"
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_array_equal(found.y, expected.y)


def test_stated_categories_and_test_rows(tmp_path, people):
    stated = {"site": ["north", "east", "south"]}
    later = write(tmp_path, "ill,site,age,smoker\nno,east,1,false\n", "later.csv")
    found = read_table(people, label="ill", categories=stated, test=later)
    assert found.features[1:4] == ("site=north", "site=east", "site=south")
    np.testing.assert_array_equal(found.test.x, [[1, 0, 1, 0, 0]])
    np.testing.assert_array_equal(found.test.y, [0])
    with raises(DataError, later, "'site'", "categories", "'east'", "row 1"):
        read_table(people, label="ill", test=later)


@pytest.mark.parametrize("grades", [("1", "2", "3"), ("01", "02", "10")])
def test_stated_categories_may_look_like_numbers_and_have_gaps(tmp_path, grades):
    rows = "\n".join(f"{grade},{k % 2}" for k, grade in enumerate(("", *grades)))
    file = write(tmp_path, f"grade,ill\n{rows}\n")
    found = read_table(file, label="ill", categories={"grade": grades}, missing="fill")
    np.testing.assert_array_equal(found.x[:, 3], [1, 0, 0, 0])
    np.testing.assert_array_equal(found.x[1:, :3], np.eye(3))


def test_numbers_and_words_may_not_change_places(tmp_path, people):
    later = write(tmp_path, "ill,site,age,smoker\nno,north,old,false\n", "later.csv")
    with raises(DataError, later, "'age'", "must hold numbers"):
        read_table(people, label="ill", test=later)


def test_labels(tmp_path):
    numbers = write(tmp_path, "x,y\n1,10\n2,20\n", "n.csv")
    np.testing.assert_array_equal(read_table(numbers, label="y").labels, [10, 20])
    np.testing.assert_array_equal(read_table(numbers, label="y", regression=True).y, [10.0, 20.0])
    words = write(tmp_path, "x,y\n1,a\n2,b\n", "w.csv")
    with raises(DataError, words, "must hold numbers", "'a'"):
        read_table(words, label="y", regression=True)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x,y\n1,2\n3,4,5\n", ("line 3", "2 fields", "got 3")),
        ("x,y\n1,2\n3\n4,5\n", ("line 3", "2 fields", "got 1")),
        ('x,y\n1,2\n3,"4\n', ("line 3", "quotes must be closed")),
        (b"x,y\n1,2\n\xff,4\n", ("line 3", "UTF-8", "0xff", "encoding")),
        ("x,y\n", ("at least one row",)),
        ("", ("cannot be read",)),
        ("x,y\r1,2\r3,4\r", ("carriage return alone", "Save the file anew")),
        ("y,x,y\n1,2,3\n", ("column 'y' is there twice", "Rename or remove one")),
        ("\n y ;x;y\n1;2;3\n", ("columns ' y ' and 'y' differ only by blanks",)),
        ("x,y,,\n1,2,,\n3,4,,5\n", ("two columns have no name", "Name or remove them")),
        ("x,y\n1,2\nNA,4\n,5\n", ("'x'", "2 of 3 rows")),
        ("x,y\n1,2\ninf,4\n1,NA\n", ("'y'", "1 of 3 rows")),
        ("x,Label\n1,2\n", ("'y'", "Use one of 'x', 'Label'")),
        ("x,yy\n1,2\n", ("'y'", "Did you mean 'yy'?")),
        (
            "x,y\n" + "".join(f"name{i},1\n" for i in range(1001)),
            ("must be left to learn from", "'x': most rows have a value of their own", "features"),
        ),
        (
            "x,y\n" + "".join(f"name{i},1\n" * 2 for i in range(1001)),
            ("1000 categories", "'x' has 1001"),
        ),
    ],
)
def test_malformed_tables_are_named(tmp_path, text, parts):
    path = write(tmp_path, text)
    with raises(DataError, path, *parts):
        read_table(path, label="y")


@pytest.mark.parametrize("ending", [",,", ",, "])
def test_empty_columns_without_names_are_dropped(tmp_path, ending):
    plain = ["x,y", "1,2", "3,4", "5,2"]
    dataset = read_table(write(tmp_path, "".join(f"{line}{ending}\n" for line in plain)), label="y")
    assert dataset.features == ("x",) and not dataset.left_out
    np.testing.assert_array_equal(dataset.y, [0, 1, 0])


def test_infinite_numbers_count_as_missing(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"x": [1.0, float("inf"), float("nan")], "y": [1, 2, 1]}).write_parquet(path)
    with raises(DataError, path, "'x'", "2 of 3 rows"):
        read_table(path, label="y")


def test_what_is_no_parquet(tmp_path):
    path = write(tmp_path, b"PAR1\xff\xff", "t.parquet")
    with raises(DataError, path, "cannot be read"):
        read_table(path, label="y")


def test_missing_words_of_columns_that_are_no_features(tmp_path):
    path = write(tmp_path, "x,site,y\n1,,2\n3,north,4\n")
    found = read_table(path, label="y", features=["x"])
    np.testing.assert_array_equal(found.columns["site"], ["missing", "north"])


KEYED = pl.DataFrame(
    {
        "patient": range(30, 0, -1),
        "name": [f"n{i}" for i in range(30)],
        "seen": [f"2026-01-{1 + i % 9:02}" for i in range(30)],
        "age": [20 + i % 7 for i in range(30)],
        "dose": np.linspace(0, 1, 30),
        "ill": [i % 2 for i in range(30)],
    }
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_keys_and_dates_are_no_features_unless_they_are_named(suffix, tmp_path):
    path = tmp_path / f"t.{suffix}"
    typed = KEYED.with_columns(pl.col("seen").str.to_date())
    getattr(typed, f"write_{suffix}")(path)
    found = read_table(path, label="ill")
    assert found.features == ("age", "dose")
    assert found.left_out.keys() == {"patient", "name", "seen"}
    assert "left out: patient (most rows have" in repr(found)
    assert set(found.columns) == {"patient", "name", "seen", "age", "dose"}  # to divide by
    assert "seen" in repr(found) and "2026" not in repr(found)
    assert read_table(path, label="ill", features=["patient"]).features == ("patient",)
    parts = read_table(path, label="ill", features=["age"], dates={"seen": ["day", "weekday"]})
    assert parts.features[:2] == ("age", "seen day") and len(parts.features) == 9
    with raises(DataError, path, "'seen' holds dates", "dates = { seen"):
        read_table(path, label="ill", features=["seen"])


def test_gaps_of_a_single_file(tmp_path):
    path = write(tmp_path, "x,w,y\n1,a,0\n,b,1\n3,,1\n4,a,\n")
    filled = read_table(path, label="y", missing="fill")
    assert filled.features == ("x", "x is missing", "w=a", "w=b", "w is missing")
    rows = [[1, 0, 1, 0, 0], [2, 1, 0, 1, 0], [3, 0, 0, 0, 1]]
    np.testing.assert_array_equal(filled.x, rows)
    later = write(tmp_path, "x,w,y\n,,1\n", "later.csv")
    tested = read_table(path, label="y", missing="fill", test=later).test
    np.testing.assert_array_equal(tested.x, [[2, 1, 0, 0, 1]])
    dropped = read_table(path, label="y", missing="drop")
    np.testing.assert_array_equal(dropped.x, [[1, 1]])
    with raises(DataError, path, "'y'", "1 of 4 rows", "missing = 'fill'"):
        read_table(path, label="y")
    with raises(ParameterError, path, "missing must be one of", "'guess'"):
        read_table(path, label="y", missing="guess")


def test_frames_are_tables(people):
    expected = read_table(people, label="ill")
    frame = pl.read_csv(people.read_bytes()).drop_nulls()
    for given in (frame, frame.lazy(), frame.to_dict(as_series=False)):
        np.testing.assert_array_equal(load(given, label="ill", test=frame).test.x, expected.x)
    with raises(ParameterError, "load", "label must be given"):
        load(frame)
    with raises(DataError, "load", "frame of pandas or Polars", "got ndarray", "from_arrays"):
        load(np.eye(2), label="y")


@pytest.mark.parametrize(
    "values",
    [
        *(["1", "2", "3.5"], ["1", "2", "x"], ["", "", "3"], ["", "NA", "x"], ["1.5", "2", "NaN"]),
        *(["1", "2", "null"], ["x", "y", "NA"], ["true", "false", "1"], ['""', "x", "y"]),
        *(["9", "9", "9223372036854775808"], ["1", "2", "3"], ["NA", "NA", "NA"]),
        *(["1", "2", " 4"], ["1", "2", "+4"], ["1.5", "2", "\t4"], ["1", "2", '" 4"'], ["1", " "]),
        *(
            ["1", "2", "9" * 23],
            ["1.5", "Inf"],
            ["1.5", "-nan"],
            ["1.5", "inf"],
            ["1.5", "NA", "-nan"],
        ),
    ],
)
def test_types_and_gaps_are_those_of_all_values_however_few_are_looked_at(
    tmp_path, monkeypatch, values
):
    path = write(tmp_path, "x,y\n" + "".join(f"{value},1\n" for value in values))
    whole = read_frame(path)
    monkeypatch.setattr(csv_files, "_FOR_TYPES", 1)
    assert_frame_equal(read_frame(path), whole)
    packed = write(tmp_path, gzip.compress(path.read_bytes()), "packed.csv.gz")
    assert_frame_equal(read_frame(packed), whole)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_field_is_looked_at_across_blocks(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_files, "_BLOCK", size)
    monkeypatch.setattr(csv_files, "_FOR_TYPES", 1)
    words = read_frame(write(tmp_path, "x\ty\n1\t2\n3\t+4\n")).dtypes
    assert [dtype == pl.String for dtype in words] == [False, True]
    tabs = write(tmp_path, "x\ty\tz\n1\t2 3\t4\n1\t\t4\n")  # an empty field is nothing odd
    assert [dtype == pl.String for dtype in read_frame(tabs).dtypes] == [False, True, False]
    assert not csv_files._has_odd_numbers(tabs, "\t")


def test_a_name_with_the_marks_of_a_pattern_is_a_name(tmp_path):
    write(tmp_path, "x,y\n1,2\n", "a.csv")
    path = write(tmp_path, "x,y\n3,4\n", "[a]*.csv")
    assert read_frame(path).rows() == [(3, 4)]


def test_a_long_first_line_is_read_too(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_HEAD", 16)
    path = write(tmp_path, ";".join(f"column{i}" for i in range(9)) + "\n" + "1;" * 8 + "2\n")
    assert read_frame(path).row(0) == (*[1] * 8, 2)


@pytest.mark.parametrize("gap", ["NA,NA,NA", ",,", "null,,NaN"])
def test_a_row_of_gaps_is_a_row_and_a_blank_line_is_none(tmp_path, gap):
    path = write(tmp_path, f"\nx,z,y\n1,a,0\n{gap}\n\n3,b,1\n{gap}\n\n")
    frame = read_frame(path)
    assert frame["x"].to_list() == [1, None, 3, None] and frame["y"].to_list() == [0, None, 1, None]
    alone = write(tmp_path, "x\n1\n\nNA\n3\n\n")
    assert read_frame(alone)["x"].to_list() == [1, None, 3]
