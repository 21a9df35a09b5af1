"""Which columns become features by themselves, and which words are shown."""

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from fedloom.cli.prepared import _column, _show_cases
from fedloom.errors import DataError
from fedloom.hints import closest
from fedloom.preparation import SiteFiles, SiteTable, from_frames, prepare
from fedloom.preparation.encoding import Column
from fedloom.preparation.tables import Reading

READING = Reading("sick")


def site(place, rows, seed, **columns):
    rng = np.random.default_rng(seed)
    table = pl.DataFrame(
        {
            "dose": rng.normal(size=rows),
            "age": rng.integers(20, 90, rows),
            "sick": np.arange(rows) % 2,
            **columns,
        }
    )
    return SiteTable(place, f"{place}.csv", table, table.clear())


def ids(rows, seed, back=0):
    """Numbers of patients, some of whom come back once."""
    numbers = np.random.default_rng(seed).permutation(10**6)[:rows]
    numbers[:back] = numbers[back : 2 * back]
    return pl.Series(numbers)


@pytest.mark.parametrize("back", [(0, 0, 1), (1, 1, 1), (0, 0, 5), (3, 5, 0)])
def test_patients_who_come_back_make_no_feature_of_their_numbers(back):
    sizes = (120, 260, 40)
    sites = [site(f"s{i}", rows, i, patient=ids(rows, i, back[i])) for i, rows in enumerate(sizes)]
    made = prepare(sites, READING).preparation
    assert list(made.left_out) == ["patient"]
    assert [column.name for column in made.columns] == ["dose", "age"]


def test_ages_that_differ_at_a_small_site_are_features():
    small = site("small", 24, 0).train.with_columns(age=pl.Series(range(30, 54)))
    sites = [SiteTable("small", "small.csv", small, small.clear()), site("large", 60, 1)]
    assert not prepare(sites, READING).preparation.left_out


def test_names_are_left_out_where_sites_are_small_or_names_repeat():
    small = [
        site(
            f"s{i}",
            18,
            i,
            file=ids(18, i),
            name=[f"Ms {i} {k}" for k in range(18)],
            ward=["a", "b"] * 9,
        )
        for i in range(4)
    ]
    made = prepare(small, READING).preparation
    assert list(made.left_out) == ["file", "name"] and "as with names" in made.left_out["name"]
    assert "Ms" not in str(made.as_dict())
    named = prepare(small, Reading("sick", categorical=("name",))).preparation
    assert "name" not in named.left_out and "Ms 3 17" in named.columns[2].words
    # Surnames in natural frequencies: the k-th of 40 has about 60 / k rows.
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 41)
    drawn = rng.choice([f"name{k}" for k in range(40)], (3, 85), p=shares / shares.sum())
    many = [site(f"s{i}", 85, i, surname=drawn[i].tolist()) for i in range(3)]
    assert list(prepare(many, READING).preparation.left_out) == ["surname"]


def test_words_of_few_rows_are_not_shown():
    column = Column("ward", 0, words=["east", "gina", "otto", "west"], counts=[40, 1, 4, 5])
    assert _column(column)["summary"] == "east 40, west 5 and 2 rarer words"
    shown = ["ward=east", "ward: rarer word 1", "ward: rarer word 2", "ward=west"]
    assert column.shown_features == shown


def test_a_misspelt_column_to_ignore_is_an_error():
    sites = [site("a", 30, 0, remark=["x", "y"] * 15), site("b", 30, 1, remark=["x", "y"] * 15)]
    with pytest.raises(DataError, match=r"'remrak' is a column of no site. Did you mean 'remark'"):
        prepare(sites, Reading("sick", ignore=("dose", "remrak")))
    one = [sites[0], site("b", 30, 1)]  # a column that only one site has may be ignored
    assert len(prepare(one, Reading("sick", ignore=("remark",))).preparation.columns) == 2


def test_blanks_around_words_are_no_part_of_them(tmp_path):
    yes, no = ["yes", "no ", " no", "yes "], ["no", "yes", "no", "yes"]
    tables = {
        name: pl.DataFrame({"dose": [1.5, 2, 3, 4] * 6, "smokes": smokes * 6, "sick": smokes * 6})
        for name, smokes in (("a", yes), ("b", no))
    }
    tables["a"][0, "smokes"] = " "
    tables["a"].write_csv(tmp_path / "a.csv")
    tables["b"].write_parquet(tmp_path / "b.parquet")
    made = SiteFiles(str(tmp_path), "sick").clients()
    column = made.preparation.columns[1]
    assert made.labels.tolist() == ["no", "yes"] and column.words == ["no", "yes"]
    assert column.counts == [24, 23] and column.missing == 1
    new = pl.DataFrame({"dose": [1.0, 1.0], "smokes": [" yes", "yes"]})
    one, other = made.preparation.encode("new", new)
    assert (one == other).all()


def test_too_many_classes_are_listed_with_their_places_and_cases_are_noted(capsys):
    parts = [site("a", 24, 0), site("b", 24, 1)]
    words = (["no", "yes"], ["No", "yes"])
    tables = [
        p.train.with_columns(sick=pl.Series(w * 12)) for p, w in zip(parts, words, strict=True)
    ]
    clients = from_frames({"a": tables[0], "b": tables[1]}, "sick")
    said = r"the data have 3: 'No' \(b\), 'no' \(a\), 'yes' \(everywhere\)\. Write"
    for problem in (fl.problems.Logistic(), fl.problems.AUC()):
        with pytest.raises(DataError, match=said):
            problem.agree(clients)
    _show_cases(clients.preparation)
    assert "'No', 'no' of 'sick' differ by case only" in capsys.readouterr().out


def test_many_whole_numbers_are_perhaps_no_classes():
    train = pl.DataFrame({"x": [0.5] * 12, "days": list(range(12))})
    test = pl.DataFrame({"x": [0.5], "days": [15]})
    with pytest.raises(DataError, match=r"got 15.*regression = true .*kind = \"poisson\""):
        prepare([SiteTable("a", "a.csv", train, test)], Reading("days"))


def test_rows_are_counted_as_in_the_file(tmp_path):
    texts = ["1", "2", "3", "?"] + ["4"] * 20
    dates = ["2026-01-31"] * 3 + ["?"] + ["2026-02-01"] * 20
    sick = [None, 1, 0, 1] + [0, 1] * 10  # a row without a label is set aside
    pl.DataFrame({"x": texts, "day": dates, "sick": sick}).write_csv(tmp_path / "a.csv")
    for options in ({"numeric": ["x"]}, {"dates": {"day": ["year"]}}):
        with pytest.raises(DataError, match=r"got '\?' in row 4"):
            SiteFiles(str(tmp_path), "sick", test_fraction=0.5, **options).tables()


def test_suggestions_do_not_mind_the_case():
    assert closest("AUC", ["accuracy", "auc", "loss"]).startswith("Did you mean 'auc'")
    assert closest("crp", ["CRP", "age"]) == "Did you mean 'CRP'?"


def test_a_column_may_be_called_as_a_count_is():
    named = site("a", 60, 0).train.with_columns(rows=pl.Series(["x", "y"] * 30))
    made = prepare([SiteTable("a", "a.csv", named, named.clear())], READING).preparation
    assert made.columns[-1].words == ["x", "y"]
    keys = named.with_columns(rows=ids(60, 1))
    made = prepare([SiteTable("a", "a.csv", keys, keys.clear())], READING).preparation
    assert list(made.left_out) == ["rows"]


def test_which_columns_are_features_does_not_depend_on_which_rows_are_held_out():
    rng = np.random.default_rng(0)
    rows, held = 400, set()
    pairs = 2 * (rows // 5)  # 2 in 5 rows have a partner, whom divisions tear apart
    income = rng.permutation(10**6)[:rows].astype(float)
    income[:pairs:2] = income[1:pairs:2]
    income[pairs : pairs + 60] = income[:60]
    table = pl.DataFrame(
        {
            "dose": rng.normal(size=rows),
            "income": income,
            "street": [f"street {round(x)}" for x in income],
            "y": rng.normal(size=rows),
        }
    )
    for fraction in (None, 0.1, 0.3, 0.5):
        for seed in range(4):
            made = from_frames({"a": table}, "y", test_fraction=fraction, seed=seed)
            held.add(tuple(made.left_out))
    assert len(held) == 1
