"""Arrays and datasets that users hand over, and what is shown of them."""

import numpy as np
import pytest
import scipy.sparse

import fedloom as fl
from data.messages import raises
from fedloom.data import from_arrays, from_datasets, from_parties
from fedloom.errors import DataError
from fedloom.population import assemble
from fedloom.preparation import SiteTable
from fedloom.problems import LeastSquares, Logistic, Vertical
from fedloom.rows import Rows

SECRET = 7131.25  # somebody's value, which no text may show
X = np.full((3, 2), SECRET)
Y = np.array([0, 1, 1])
PAIRS = [(X, Y), (X[:2], Y[:2])]


def holders():
    import polars as pl

    clients = from_arrays(PAIRS, test=PAIRS)
    parties = from_parties({"a": X, "b": X}, [SECRET] * 3)
    ids = fl.data.align({"a": [str(SECRET)], "b": [str(SECRET)]}, how="plain")
    frame = pl.DataFrame({"age": [SECRET] * 3})
    federation = assemble(Logistic(), clients, None, "float32")
    vertical = assemble(Vertical(loss="squared"), parties, None, "float32")
    return {
        "Clients": clients,
        "Parties": parties,
        "Dataset": fl.data.Dataset("d", X, Y, np.array([0, 1])),
        "Rows": Rows(X, Y),
        "Alignment": ids,
        "SiteTable": SiteTable("a", "a.csv", frame, frame),
        "Federation": federation,
        "Group": federation.groups[0],
        "Store": federation.groups[0].train,
        "ClientRows": federation.groups[0].train.client(0),
        "Batch": federation.groups[0].train.client(0).everything(),
        "LabelParty": vertical.fed,
        "Party": vertical.groups[0],
        "Dense": vertical.groups[0].train,
    }


def test_nothing_that_holds_rows_shows_them():
    for name, holder in holders().items():
        text = repr(holder)
        assert text.startswith(name) and "7131" not in text and len(text) < 1000, text


def test_a_short_description_says_how_much_there_is():
    made = holders()
    assert repr(made["Clients"]) == (
        "Clients(2 clients, 5 rows, 2 features, 2 classes, 5 test rows; "
        "rows of client 0: 3, client 1: 2)"
    )
    assert repr(made["Parties"]) == (
        "Parties(2 parties, 3 rows, 4 features, numbers to predict; features of a: 2, b: 2)"
    )
    assert repr(made["Dataset"]) == "Dataset('d': 3 rows, 2 features, 2 classes)"
    many = repr(from_arrays([(X, Y)] * 20))
    assert many.endswith("client 7: 3, and 12 more)")


@pytest.mark.parametrize("kind", [str, object])
def test_texts_are_classes_under_their_names(kind):
    words = np.array(["no", "yes"], kind)
    made = from_arrays([(x, words[y]) for x, y in PAIRS])
    assert made.labels.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(made.train.y, [0, 1, 1, 0, 1])
    assert from_parties([X], words[Y]).labels.tolist() == ["no", "yes"]


def test_counts_are_numbers_where_it_is_said():
    made = from_arrays(PAIRS, regression=True)
    assert made.labels is None and made.train.y.dtype == np.float64
    with raises(DataError, "regression must hold numbers", "texts"):
        from_arrays([(X, ["a", "b", "b"])], regression=True)


TENS = np.array([10, 20, 40])


SQUARED_NETWORK = fl.problems.Supervised(fl.models.MLP((2,)), loss="squared")


@pytest.mark.parametrize("problem", [LeastSquares(), SQUARED_NETWORK])
def test_a_regression_does_not_fit_the_places_of_classes(problem):
    """Whole numbers are classes, and 10, 20, 40 would be fitted as 0, 1, 2."""
    with raises(DataError, "needs numbers to predict", "3 classes", "regression = true"):
        assemble(problem, from_arrays([(X, TENS)]), None, "float32")
    assemble(problem, from_arrays([(X, TENS)], regression=True), None, "float32")


def test_parties_predict_numbers_and_no_places_of_classes():
    def labels(parties):
        return assemble(Vertical(loss="squared"), parties, None, "float32").fed.labels.tolist()

    with raises(DataError, "'squared' needs numbers", "10, 20, 40", "regression = true"):
        labels(from_parties([X], TENS))
    numbers = from_parties([X], TENS, test=([X], TENS), regression=True)
    assert labels(numbers) == numbers.test_y.tolist() == TENS.tolist()
    assert labels(from_parties([X], [0, 1, 2])) == [0, 1, 2]  # as they are called
    assert labels(from_parties([X], [0, 5, 5])) == [-1, 1, 1]
    with raises(DataError, "from_parties", "regression must hold numbers"):
        from_parties([X], ["a", "b", "b"], regression=True)


def test_arrays_that_do_not_fit():
    with raises(DataError, "client 'client 1'", "shape (2,)", "'client 0'", "got (1,)"):
        from_arrays([(X, Y), (X[:, :1], Y)])
    with raises(DataError, "client 'b'", "shape (2,)", "got (3,)"):
        from_arrays(PAIRS, test=[(X, Y), (np.ones((1, 3)), [0])], names=["a", "b"])
    for few_or_many in (["a"], ["a", "b", "c"], []):
        with raises(DataError, "one for each of the 2 clients", f"got {len(few_or_many)}"):
            from_arrays(PAIRS, names=few_or_many)
    with raises(DataError, "names must be different ones; got 'a' more than once"):
        from_arrays(PAIRS, names=["a", "a"])
    with raises(DataError, "client 'client 1'", "labels must be numbers", "got texts"):
        from_arrays([(X, Y), (X, ["a", "b", "c"])])
    with raises(DataError, "client 'client 0'", "pair (x, y)", "got ndarray"):
        from_arrays([X, X])
    with raises(DataError, "client 'client 0'", "x must hold numbers", "from_frames"):
        from_arrays([([["a"], ["b"]], [0, 1])])
    with raises(DataError, "client 'client 0'", "got a sparse csr_matrix", "Pass x.toarray()"):
        from_arrays([(scipy.sparse.csr_matrix(np.eye(2)), [0, 1])])
    with raises(DataError, "client 'client 0'", "must have a label; 1 have none"):
        from_arrays([(X, ["a", None, "b"])])
    with raises(DataError, "client 'client 0'", "x must be an array", "same length"):
        from_arrays([([[1.0], [1.0, 2.0], [1.0]], Y)])


def test_a_gap_is_not_called_divergence():
    gaps = X.copy()
    gaps[1:, 1] = np.nan
    method = fl.algorithms.FedAvg(lr=0.1)
    for clients, problem, parts in (
        (from_arrays([(X, Y), (gaps, Y)]), Logistic(), ("client 'client 1'", "feature 1", "2 of")),
        (from_arrays([(X, Y)], test=[(gaps, Y)]), Logistic(), ("every test row", "from_frames")),
        (from_arrays([(X, [1.5, np.nan, np.inf])]), LeastSquares(), ("have a label", "2 of 3")),
    ):
        with raises(DataError, *parts):
            fl.simulate(method, problem, clients, rounds=1)
    whole, lacking, y = {"lab": X, "clinic": X}, {"lab": X, "clinic": gaps}, [0.5, 1.5, 2.5]
    for parties, kind in (
        (from_parties(lacking, y), "every row"),
        (from_parties(whole, y, test=(lacking, y)), "every test row"),
    ):
        with raises(DataError, "party 'clinic'", "feature 1", kind):
            fl.simulate(fl.algorithms.EGVFL(), Vertical(loss="squared"), parties, rounds=1)


class HuggingFace:
    """What `datasets.Dataset` can do: columns by name, features that know the classes."""

    def __init__(self, columns, features):
        self.columns, self.features = columns, features

    @property
    def column_names(self):
        return list(self.columns)

    def __len__(self):
        return len(self.columns["label"])

    def __getitem__(self, name):
        return self.columns[name]


class ClassLabel:
    names = ("ham", "spam")


class Scalar:
    """A label as a tensor of no dimension."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.value)


class Torch:
    """What a map-style `torch.utils.data.Dataset` can do: a length, and pairs by number."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        return self.x[row], Scalar(int(self.y[row]))


def test_datasets_of_hugging_face():
    part = HuggingFace(
        {"a": [1.0, 2.0], "b": [3, 4], "pixels": [[[1, 2]], [[3, 4]]], "label": [1, 0]},
        {"label": ClassLabel()},
    )
    made = from_datasets({"n": part, "s": part}, x=["a", "b"], y="label")
    assert made.names == ("n", "s") and made.labels.tolist() == ["ham", "spam"]
    np.testing.assert_array_equal(made.of(1).x, [[1, 3], [2, 4]])
    np.testing.assert_array_equal(made.of(1).y, [1, 0])
    assert from_datasets([part], x="pixels", y="label", test=[part]).test.x.shape == (2, 1, 2)
    with raises(DataError, "client 'n'", "no column 'c'"):
        from_datasets({"n": part}, x="c", y="label")
    with raises(DataError, "client 'client 0'", "needs x and y", "a, b, pixels, label"):
        from_datasets([part])


def test_datasets_of_pytorch():
    part = Torch(X, Y)
    made = from_datasets({"n": part, "s": part}, test={"n": part, "s": part})
    np.testing.assert_array_equal(made.train.y, [*Y, *Y])
    part.classes = ["no", "yes"]
    assert from_datasets([part]).labels.tolist() == ["no", "yes"]
    with raises(DataError, "test must be of the clients n", "got s"):
        from_datasets({"n": part}, test={"s": part})
    with raises(DataError, "client 'client 0'", "pair of features and label", "got int"):
        from_datasets([[1, 2]])
    with raises(DataError, "client 'client 0'", "one shape; got 2"):
        from_datasets([[([1], 0), ([1, 2], 1)]])
    with raises(DataError, "client 'client 0'", "got generator", "finite part"):
        from_datasets([(i for i in range(2))])
