"""Tables of two parties for people old and new, and a pooled model of them in plain NumPy."""

from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import minimize

DATES = {"admitted": ["year", "month"]}
OPTIONS = {"parties": "parties", "id": "who", "label": "ill", "join": "plain", "dates": DATES}
LABELS = {
    "logistic": lambda score: np.where(score > 0, "yes", "no"),
    "softmax": lambda score: np.array(["low", "middle", "high"])[np.digitize(score, [-1, 1])],
    "squared": lambda score: score.round(3) + 0.0005,
}
SETTINGS = """
[data]
parties = "parties"
id = "who"
label = "ill"
join = "plain"
dates = {{ admitted = ["year", "month"] }}
[problem]
kind = "vertical"
loss = "{loss}"
l2 = 1.0
[algorithm]
key = "vertical_agd"
[run]
rounds = {rounds}
eval_every = {rounds}
precision = "float64"
"""


def tables(rows, seed, label, first=0):
    """A laboratory with the labels, and a clinic; the words, gaps and months of one draw."""
    rng = np.random.default_rng(seed)
    marker, ward = rng.normal(3, 2, rows), rng.choice(["red", "blue", "green"], rows)
    age, month = rng.normal(50, 9, rows).round(2), rng.integers(1, 5, rows)
    score = marker - 3 + 2.0 * (ward == "red") + (50 - age) / 9 + rng.normal(size=rows) / 3
    day = [f"{rng.integers(2020, 2024)}-{m:02d}-15" for m in month]
    who = [f"{first + k:04d}" for k in range(rows)]

    def gaps(values):
        return [None if rng.random() < 0.1 else value for value in values.tolist()]

    laboratory = pl.DataFrame({"who": who, "marker": gaps(marker), "ill": label(score)})
    clinic = pl.DataFrame({"who": who, "ward": gaps(ward), "age": gaps(age), "admitted": day})
    return laboratory, clinic[rng.permutation(rows)]


def new_tables(label):
    """People of whom some are unknown to a party, and some have what no training row had."""
    laboratory, clinic = tables(40, 9, label, first=500)
    clinic = clinic.with_columns(ward=clinic["ward"].replace("blue", "violet"))
    return laboratory.drop("ill")[3:], clinic[5:]


def write(label):
    for place, made in (("parties", tables(300, 4, label)), ("new", new_tables(label))):
        Path(place).mkdir()
        for name, frame in zip(("laboratory", "clinic"), made, strict=True):
            frame.write_csv(Path(place) / f"{name}.csv")


def by_hand(train, new, standardise=True):
    """Features of joined tables, as the page on one's own data says, without fedloom."""

    def columns(frame):
        for name in ("marker", "age", "year"):
            values = frame["admitted"].str.slice(0, 4) if name == "year" else frame[name]
            yield name, values.cast(pl.Float64).fill_null(np.nan).to_numpy(), None
        months = frame["admitted"].str.slice(5, 2).str.strip_chars_start("0")
        for name, values in (("ward", frame["ward"]), ("month", months)):
            yield name, None, np.array(values.fill_null("").to_list())

    blocks = []
    for (_, own, words), (_, other, others) in zip(columns(train), columns(new), strict=True):
        if words is None:
            mean, deviation = np.nanmean(own), np.nanstd(own) if standardise else 1
            filled = np.where(np.isnan(other), mean, other)
            blocks.append((filled - (mean if standardise else 0)) / deviation)
        else:
            known = sorted(set(words) - {""})
            blocks += [(others == word).astype(float) for word in known]
    return np.stack(blocks, axis=1)


def pooled(loss, x, labels):
    """The solution on all columns together: weights, and what makes predictions of scores."""
    if loss == "squared":
        return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ labels)
    names, places = np.unique(labels, return_inverse=True)
    shape = (x.shape[1], len(names)) if loss == "softmax" else (x.shape[1],)

    def value(w):
        z, w = x @ w.reshape(shape), w.reshape(shape)
        if loss == "logistic":
            signs = 2 * places - 1
            slope = -signs / (1 + np.exp(signs * z))
            rows = np.logaddexp(0, -signs * z)
        else:
            log = z - np.logaddexp.reduce(z, axis=1)[:, None]
            rows, slope = -log[np.arange(len(z)), places], np.exp(log)
            slope[np.arange(len(z)), places] -= 1
        return rows.sum() + np.sum(w**2) / 2, (x.T @ slope + w).ravel()

    begin = np.zeros(np.prod(shape))
    found = minimize(value, begin, jac=True, method="BFGS", options={"gtol": 1e-10})
    assert np.abs(found.jac).max() < 1e-6
    return found.x.reshape(shape)


def said_by_hand(loss, scores, labels):
    if loss == "squared":
        return {"prediction": scores}
    names = np.unique(labels)
    if loss == "logistic":
        scores = np.stack([0 * scores, scores], axis=1)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return {f"probability of {name}": shares[:, k] for k, name in enumerate(names)}


def read(file):
    return pl.read_csv(file, schema_overrides={"who": str})


def joined(laboratory, clinic):
    return laboratory.join(clinic, on="who", maintain_order="left")
