"""Values that are no numbers in a column of numbers, and what counts as missing in a CSV."""

import polars as pl
import pytest

import fedloom as fl
from fedloom.data import strays
from fedloom.data.csv_files import MISSING
from fedloom.data.frames import read_frame
from fedloom.errors import DataError
from fedloom.preparation import SiteFiles
from fedloom.preparation.joining import Joining
from fedloom.preparation.party_files import PartyFiles

AGES = [f"{20 + i % 60}" for i in range(300)]


def table(**changes):
    """A table of 300 rows; changes give a column's values by their rows, counted from 1."""
    ages = AGES.copy()
    for row, value in changes.get("age", {}).items():
        ages[row - 1] = value
    sick = [str(i % 2) for i in range(300)]
    sick[1] = ""  # so that rows with a label are counted otherwise than those of the file
    return pl.DataFrame({"age": ages, "dose": [i / 7 for i in range(300)], "sick": sick})


def write(folder, name, made):
    folder.mkdir(exist_ok=True)
    made.write_csv(folder / f"{name}.csv")
    return folder


@pytest.mark.parametrize("separator", [",", ";"])
def test_one_value_that_is_no_number_is_named_by_its_row(tmp_path, separator):
    made = table(age={17: "12O", 40: "unknown"})
    told = (
        r"a.csv: column 'age' holds numbers in 298 rows and something else in 2, first '12O' in "
        r"row 17\. Correct it; .* name it in categorical, or in ignore"
    )
    text = made.write_csv(separator=separator)
    text = text.replace(".", ",") if separator == ";" else text
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=told):
        SiteFiles(str(tmp_path), "sick").clients()
    with pytest.raises(DataError, match=r"'12O' in row 17, the first of 2 such rows"):
        SiteFiles(str(tmp_path), "sick", numeric=["age"]).clients()
    words = SiteFiles(str(tmp_path), "sick", categorical=["age"]).clients().preparation
    assert words.columns[0].words is not None
    assert not SiteFiles(str(tmp_path), "sick", ignore=["age"]).clients().left_out


def test_decimal_commas_are_not_what_is_wrong(tmp_path):
    doses = [f"{i},5" for i in range(40)]
    doses[7] = "0,5 mg"
    frame = pl.DataFrame({"dose": doses, "sick": [0, 1] * 20})
    (tmp_path / "a.csv").write_text(frame.write_csv(separator=";"))
    for options in ({}, {"numeric": ["dose"]}):
        with pytest.raises(DataError, match="'0,5 mg' in row 8"):
            SiteFiles(str(tmp_path), "sick", **options).clients()


@pytest.mark.parametrize(
    "values",
    [
        ["1", "2", "3", "4", "5", "5+"] * 10,  # grades
        [f"{i}" for i in range(40)] + [f"A{i}" for i in range(20)],  # tickets
        [f"{i}" for i in range(40)],
        ["red", "blue"] * 20,
    ],
)
def test_columns_of_words_are_left_alone(values):
    strays.refuse("a.csv", pl.Series("x", values), "")


def test_a_word_that_stands_for_a_gap_is_told_however_often_it_occurs():
    values = pl.Series("x", [f"{i}" if i % 3 else "?" for i in range(60)])
    with pytest.raises(DataError, match=r"numbers in 40 rows and something else in 20, first '\?'"):
        strays.refuse("a.csv", values, "")


def test_labels_are_looked_at_too(tmp_path):
    days = [f"{i}.5" for i in range(50)]
    days[3] = "l2"
    frame = pl.DataFrame({"dose": [float(i) for i in range(50)], "days": days})
    folder = write(tmp_path, "a", frame)
    told = "'l2' in row 4.*regression = false"
    with pytest.raises(DataError, match=told):
        SiteFiles(str(folder), "days").clients()
    with pytest.raises(DataError, match=told):
        fl.data.load(folder / "a.csv", label="days")
    pl.DataFrame({"dose": [1.0, 2.0], "days": ["0,5", "l2"]}).write_csv(folder / "few.csv")
    told = r"few.csv: the label.* of a regression must hold numbers; got 'l2'\. Leave out"
    with pytest.raises(DataError, match=told):  # which a decimal comma is not
        fl.data.load(folder / "few.csv", label="days", regression=True)
    with pytest.raises(DataError, match=told):
        SiteFiles(str(folder / "few.csv"), "days", regression=True).clients()


def test_a_label_of_blanks_is_no_text():
    with pytest.raises(fl.FedloomError, match="SiteFiles: label must be a text; got ' '"):
        SiteFiles("sites", " ")


def test_single_tables_and_parties(tmp_path):
    file = write(tmp_path / "one", "all", table(age={17: "12O"}).filter(pl.col("sick") != ""))
    file = file / "all.csv"
    with pytest.raises(DataError, match=r"all.csv: .*'12O' in row 16.*list them in categories"):
        fl.data.load(file, label="sick")
    with pytest.raises(DataError, match="'12O' in row 16"):
        fl.data.load(file, label="sick", features=["age"])
    assert fl.data.load(file, label="sick", features=["dose"]).x.shape[1] == 1
    people = pl.DataFrame({"id": [f"p{i}" for i in range(300)]})
    parties = write(tmp_path / "parties", "a", people.hstack(table().select("dose")))
    write(parties, "b", people.hstack(table(age={17: "12O"}).select("age")))
    write(parties, "c", people.with_columns(sick=pl.Series([0, 1] * 150)))
    asked = PartyFiles("id", "sick", parties=str(parties), join="plain", ignore=["dose"])
    with pytest.raises(DataError, match=r"b.csv: .*'12O' in row 17.*name it in features"):
        asked.load()
    named = Joining("id", "sick", features=["age"])
    assert named.read(parties / "b.csv").height == 300


def test_an_error_in_a_test_file_names_it_with_its_row(tmp_path):
    sites = write(tmp_path / "sites", "a", table())
    tests = write(tmp_path / "tests", "a", table(age={17: "12O", 18: "12O"}))
    files = SiteFiles(str(sites), "sick", test=str(tests))
    with pytest.raises(DataError) as raised:
        files.clients()
    assert f"{tests / 'a.csv'}: column 'age' must hold numbers" in str(raised.value)
    assert "got '12O' in row 17, the first of 2 such rows" in str(raised.value)
    write(tests, "a", table().with_columns(sick=pl.lit("7")))
    with pytest.raises(DataError, match=r"tests.a.csv: every 'sick' must be one of 0, 1; got"):
        files.clients()
    single = sites / "a.csv", write(tmp_path / "t", "b", table(age={17: "x"})) / "b.csv"
    with pytest.raises(
        DataError, match=r"b.csv: column 'age' must hold numbers; got 'x' in row 17"
    ):
        fl.data.load(single[0], label="sick", missing="drop", test=single[1])


@pytest.mark.parametrize("missing", [*filter(None, MISSING), " NA", "NULL "])
def test_what_counts_as_missing_does_so_for_every_reader(tmp_path, missing):
    text = f"id,age,ward,sick\n1,3,{missing},0\n2,{missing},b,1\n3,5,b,1\n4,6,c,0\n"
    (tmp_path / "a.csv").write_text(text)
    frame = read_frame(tmp_path / "a.csv")
    assert frame["age"].null_count() == 1 and frame["ward"].null_count() == 1
    if missing == missing.strip():
        clients = SiteFiles(str(tmp_path), "sick", features=["age", "ward"]).clients()
        names = ["age", "age is missing", "ward=b", "ward=c", "ward is missing"]
        assert clients.preparation.features == names
        new = clients.preparation.encode("new", read_frame(tmp_path / "a.csv"))
        assert new[1, 0] == 0 and new[1, 1] == 1 and new[0, 4] == 1
        assert fl.data.load(tmp_path / "a.csv", label="sick", missing="drop").x.shape[0] == 2


def test_none_is_a_gap_among_numbers_and_a_word_among_words(tmp_path):
    rows = "".join(f"{i},{i}.5,None,{'None' if i % 3 else 'mild'}\n" for i in range(30))
    text = f"age,dose,drink,stage\nNone,None,beer,mild\n{rows}"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text.replace(",", ";").replace(".", ","))
    for name in "ab":
        frame = read_frame(tmp_path / f"{name}.csv")
        assert frame.dtypes == [pl.Int64, pl.Float64, pl.String, pl.String]
        assert [series.null_count() for series in frame] == [1, 1, 0, 0]
    clients = SiteFiles(str(tmp_path), "stage", features=["age", "dose", "drink"]).clients()
    assert clients.labels.tolist() == ["None", "mild"] and clients.sizes.tolist() == [31, 31]
    assert clients.preparation.features[-2:] == ["drink=None", "drink=beer"]
    codes = pl.DataFrame({"code": ["007", "None"], "y": [0, 1]})
    codes.write_csv(tmp_path / "c.csv")
    assert read_frame(tmp_path / "c.csv", codes=["code"])["code"].to_list() == ["007", "None"]


def test_question_marks_are_words(tmp_path):
    (tmp_path / "a.csv").write_text("ward,sick\n?,0\n-,1\nunknown,1\n")
    assert read_frame(tmp_path / "a.csv")["ward"].to_list() == ["?", "-", "unknown"]
