"""Sentences of the page on personal models, held against raw results."""

import json

import numpy as np
import pytest

from fedloom.experiments import papers, raw_results
from tools import personal_tables, reproductions


def seeds_of(name):
    """Of a reproduction by method, the main metric of each seed at the evaluations that it had."""
    raw = raw_results.read(reproductions.RAW / f"{name}.jsonl")
    return {
        method: [
            dict(zip(run.columns["round"], run.columns["accuracy"], strict=True)) for run in runs
        ]
        for method, runs in raw.runs.items()
    }


def last(history):
    return history[max(history)]


def test_what_is_said_of_the_collapse_on_a_slice():
    """Centres that move by the loss alone end high for every seed; as stated, for one of three."""
    found = json.loads((reproductions.RAW / "personal-collapse.json").read_text())
    last = {(point["series"], point["seed"]): point["value"] for point in found["points"]}

    def ends(series):
        return sorted(round(last[series, seed], 3) for seed in range(3))

    assert ends("centres by the loss alone") == [0.986, 0.988, 0.990]
    assert ends("as stated") == [0.781, 0.801, 0.986]
    assert ends("closeness 0.02") == [0.925, 0.988, 0.994]
    assert max(ends("centres by the closeness alone: gap")) < 0.05
    assert max(ends("centres by the closeness alone")) < min(ends("closeness 0.02"))


def test_what_is_said_of_qupel_with_all_clients():
    """Frozen, clipped models fall; two variants end well for every seed; none is at the print."""
    found = seeds_of("personal-mnist-qupel")
    ends = {method: sorted(map(last, runs)) for method, runs in found.items()}
    well = [method for method, values in ends.items() if values[0] > 0.94]
    assert well == ["clipped, never frozen", "clipped, closeness 0.02"]
    assert [round(float(np.mean(ends[method])), 3) for method in well] == [0.963, 0.970]
    for frozen, free in zip(found["clipped"], found["clipped, never frozen"], strict=True):
        early = [at for at in free if 24 <= at <= 192]
        assert all(frozen[at] == free[at] and 0.905 < free[at] < 0.97 for at in early)
        assert last(frozen) < 0.41 and min(v for at, v in free.items() if at > 192) > 0.935
    assert ends["QuPeL, 1 bit"][2] < 0.52 and ends["closeness 0.02"][0] < 0.91
    assert [values[0] < 0.41 for m, values in ends.items() if m.startswith("clipped, ")] == [
        False, True, True, False,
    ]  # fmt: skip
    assert [max(run) for run in found["centres still"]] == [133, 21, 240]


def test_what_is_said_of_tables_6_and_8_from_settings_files():
    """The gain of QuPeD, between the same seeds, and what more passes did not raise."""
    four = {m: float(np.mean([*map(last, r)])) for m, r in seeds_of("personal-mnist-4").items()}
    gains = [four[f"QuPeD{b}"] - four[f"local{b}"] for b in ("", ", 2 bits", ", 1 bit")]
    assert gains == pytest.approx([0.0012, 0.0019, 0.0037], abs=5e-5)
    above = {method for method, value in four.items() if value > four["QuPeD"]}
    assert above == {"FedAvg", "Per-FedAvg", "mutual learning"}
    printed = papers.facts("personal-mnist-4").printed
    assert {m for m in four if abs(four[m] - printed[m]) > 0.004} == {
        "QuPeL, 2 bits", "QuPeL, 1 bit",
    }  # fmt: skip
    found = seeds_of("personal-cifar10")
    ends = {method: [*map(last, runs)] for method, runs in found.items()}

    def gain(one, other):
        return round(
            100 * float(np.mean([a - b for a, b in zip(ends[one], ends[other], strict=False)])), 1
        )

    assert not ends["pFedMe"] and gain("QuPeD", "local") == 3.3
    assert gain("QuPeD, 2 bits", "local, 2 bits") == 6.2 and gain("QuPeD, 2 bits", "local") == 2.3
    assert gain("QuPeD", "mutual learning") == 0.7 and round(gain("local", "FedAvg")) == 17
    assert (
        max(found["QuPeD, 1 bit"][0]) == 488 and round(last(found["QuPeD, 1 bit"][0]), 3) == 0.604
    )
    assert [round(100 * float(np.mean(ends[m])), 1) for m in ("local, 2 bits", "local, 1 bit")] == [
        67.6, 53.4,
    ]  # fmt: skip
    for key in ("fedavg", "local", "mutual"):  # 100 passes, and 250
        before = float(np.mean(personal_tables.accuracies("cifar10", 3, key)))
        assert 100 * np.mean(ends[personal_tables.NAMES[key]]) < before + 0.1


def test_what_is_said_of_networks_on_a_gpu():
    """The order of methods, and the figures that stand in sentences."""
    page = (reproductions.PAGES / "personal.md").read_text()
    for method in ("local-1-bounded", "quped-1-bounded"):
        assert personal_tables.figure("mnist", 3, method) in page
    for task, classes in (("mnist", 3), ("mnist", 4), ("cifar10", 3)):
        mean = {
            key: np.mean(personal_tables.accuracies(task, classes, key))
            for key in personal_tables.NAMES
        }
        for bits in ("", "-2", "-1"):
            assert mean[f"quped{bits}"] > mean[f"local{bits}"]
        if classes == 3:
            assert mean["quped"] > max(
                mean[key] for key in ("fedavg", "pfedme", "per_fedavg", "qupel-2", "qupel-1")
            )
            assert mean["quped-2"] > mean["local"]
    clipped = personal_tables.accuracies("mnist", 3, "qupel-1-bounded")
    assert min(clipped) < 35 and max(clipped) > 95


def test_what_is_said_of_the_gain_on_mnist_and_on_digits():
    """With 3 classes within the spread; on digits below local training for every seed."""
    found = {m: [*map(last, runs)] for m, runs in seeds_of("personal-mnist").items()}
    for bits in ("", ", 2 bits", ", 1 bit"):
        gains = 100 * np.subtract(found[f"QuPeD{bits}"], found[f"local{bits}"])
        assert 0.07 < gains.mean() < 0.15 and sum(gains > 0) == (3 if bits else 2)
    assert all(np.less(found["QuPeD"], found["mutual learning"]))
    for key in ("quped", "local", "fedavg"):  # the same seeds, again
        before = personal_tables.accuracies("mnist", 3, key)
        assert np.allclose(before, 100 * np.array(found[personal_tables.NAMES[key]]), atol=0.01)
    digits = {m: [*map(last, runs)] for m, runs in seeds_of("personal-digits").items()}
    assert all(np.less(digits["QuPeD"], digits["local"]))


def test_what_is_said_of_a_clipped_run_that_fell_before_weights_were_frozen():
    lines = (reproductions.PAGES.parent / "verification/personal-h200.jsonl").read_text()
    runs = [
        run for run in map(json.loads, lines.splitlines()) if run["method"] == "qupel-1-bounded"
    ]
    at = [{row["round"]: row["accuracy"] for row in run["rows"]} for run in runs]
    assert all(0.925 < run[key] < 0.97 for run in at for key in (48, 96, 144))
    assert [run[192] < 0.34 for run in at] == [False, False, True]
    assert [max(run) for run in at] == [208, 212, 240]


def test_what_is_said_of_curves_that_still_rise():
    """By how many points between the last two evaluations."""
    for name, (least, most) in (("personal-ag-news", (3, 8)), ("personal-femnist", (4, 12))):
        runs = seeds_of(name).values()
        rises = [100 * np.mean([[*r.values()][-1] - [*r.values()][-2] for r in of]) for of in runs]
        assert (round(min(rises)), round(max(rises))) == (least, most)


def test_what_is_said_of_ag_news_with_more_passes():
    """QuPeD comes nearer to local training, and FedAvg passes both."""
    found = {m: runs[0] for m, runs in seeds_of("personal-ag-news-long").items() if runs}
    fedavg, local, quped = (found[method] for method in ("FedAvg", "local", "QuPeD"))
    assert [round(100 * last(run), 1) for run in (fedavg, local, quped)] == [82.3, 80.2, 79.0]
    assert [round(100 * (local[at] - quped[at]), 1) for at in (90, 270)] == [4.5, 1.2]
    assert [round(100 * (run[270] - run[240]), 1) for run in (quped, local)] == [0.4, 0.1]
    for other, passed in ((quped, 180), (local, 240)):
        assert [at for at in fedavg if at and fedavg[at] > other[at]] == list(
            range(passed, 271, 30)
        )


@pytest.mark.parametrize(
    ("classes", "name", "most"),
    [(3, "personal-mnist", {"QuPeL, 1 bit": 9}), (4, "personal-mnist-4", {"QuPeL, 1 bit": 8.4})],
)
def test_settings_files_give_the_columns_of_the_script_again(classes, name, most):
    """But for methods at 1 bit, and QuPeL at 2 bits with 4 classes."""
    runs, apart = raw_results.read(reproductions.RAW / f"{name}.jsonl").runs, {}
    for key, method in personal_tables.NAMES.items():
        script = np.array(personal_tables.accuracies("mnist", classes, key))
        file = np.array([100 * run.columns["accuracy"][-1] for run in runs[method]])
        apart[method] = abs(script - file)
    others = {"local, 1 bit": 0.2, "QuPeD, 1 bit": 0.2} if classes == 3 else {
        "local, 1 bit": 1.6, "QuPeD, 1 bit": 1.6, "QuPeL, 2 bits": 0.7,
    }  # fmt: skip
    differ = {m: round(float(by.max()), 3) for m, by in apart.items() if by.max() > 0.001}
    assert sorted(differ) == sorted(most | others)
    assert all(0.6 * value < differ[method] <= value for method, value in (most | others).items())
    if classes == 4:
        assert (apart["QuPeL, 2 bits"] > 0.1).sum() == 2


def test_the_same_settings_ended_otherwise_where_evaluations_were_more():
    of = [seeds_of(name)["QuPeL, 1 bit"] for name in ("personal-mnist", "personal-mnist-qupel")]
    apart = [abs(last(one) - last(other)) for one, other in zip(*of, strict=True)]
    assert 0.1 < max(apart) < 0.115


def test_claims_on_qupel_and_pfedme_are_reversed_here():
    """Points by which QuPeL at 2 bits is below local training at 2 bits, and below FedAvg."""

    def ends(name, method):
        return 100 * float(np.mean([last(run) for run in seeds_of(name)[method]]))

    for name, below in (("personal-mnist", (0.6, 0.3)), ("personal-mnist-4", (0.3, 0.9))):
        for method, points in zip(("local, 2 bits", "FedAvg"), below, strict=True):
            apart = ends(name, method) - ends(name, "QuPeL, 2 bits")
            assert apart == pytest.approx(points, abs=0.06)
    assert ends("personal-mnist", "local") - ends("personal-mnist", "pFedMe") == pytest.approx(
        0.2, abs=0.03
    )


def test_what_is_said_of_femnists_digits():
    """Table 7: centres that stand still, the level, and local training."""
    found = seeds_of("personal-femnist-digits")

    def ends(method):
        return np.array([last(run) for run in found[method]])

    widths = ("", ", 2 bits", ", 1 bit")
    means = [round(100 * float(ends(f"QuPeD{bits}").mean()), 1) for bits in widths]
    assert means == [94.4, 94.5, 93.4]
    still = [ends(f"QuPeD{bits}, centres still") for bits in widths[1:]]
    assert [round(100 * float(values.mean()), 1) for values in still] == [94.7, 92.0]
    assert (still[1] < ends("QuPeD, 1 bit")).all()
    assert abs(still[0].mean() - ends("QuPeD, 2 bits").mean()) < ends("QuPeD, 2 bits").std(ddof=1)
    printed = papers.facts("personal-femnist-digits").printed
    below = [100 * printed[f"QuPeD{b}"] - mean for b, mean in zip(widths, means, strict=True)]
    assert all(1.7 < points < 3 for points in below)
    apart = [ends(f"local{bits}") - ends(f"QuPeD{bits}") for bits in widths]
    assert all((one > 0).all() for one in apart)
    assert [round(100 * float(one.mean()), 1) for one in apart] == [0.8, 0.4, 0.8]

    def rise(method):
        return 100 * float(np.mean([run[36] - run[24] for run in found[method]]))

    assert all(2 < rise(f"QuPeD{bits}") < 4.5 for bits in widths) and 0.4 < rise("local") < 0.6
