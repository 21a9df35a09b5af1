"""What docs/choosing.md says of its pictures, held against the lines that they are drawn from."""

import json
from pathlib import Path

import numpy as np

LINES = Path(__file__).parents[1] / "docs" / "verification"


def means(family):
    """By method and column, the mean over seeds at each evaluated round."""
    runs = {}
    for text in (LINES / f"baselines-{family}.jsonl").read_text().splitlines():
        line = json.loads(text)
        for column in line.keys() - {"method", "seed", "round"}:
            rounds = runs.setdefault((line["method"], column), {})
            rounds.setdefault(line["round"], []).append(line[column])
    return {key: {r: np.mean(v) for r, v in rounds.items()} for key, rounds in runs.items()}


def sent(found, method, last):
    return found[method, "bytes_up"][last] + found[method, "bytes_down"][last]


def test_what_is_said_of_the_averaging_baselines():
    found = means("averaging")
    at = lambda method, r: found[method, "objective"][r]  # noqa: E731
    assert at("feddyn", 15) < at("scaffold", 60)
    assert max(at("fedavgm", 15), at("fedadam", 15)) < at("fedavg", 60) <= at("fednova", 60)
    for method in ("fedavgm", "fedadam", "feddyn"):
        assert sent(found, method, 60) == sent(found, "fedavg", 60)
    assert round(sent(found, "scaffnew", 60) / sent(found, "scaffold", 60), 2) == 0.75
    assert abs(at("scaffnew", 60) - at("scaffold", 60)) < 0.02
    assert found["fednova", "accuracy_worst"][60] < found["fedavg", "accuracy_worst"][60]


def test_what_is_said_of_the_robust_baselines():
    found = means("robust")
    largest = {method: found[method, "loss_worst"] for method, c in found if c == "loss_worst"}
    for r in sorted(largest["fedavg"])[1:]:
        assert min(largest, key=lambda method: largest[method][r]) == "scaff_pd"
        assert max(largest, key=lambda method: largest[method][r]) == "q_fedavg"
        assert largest["drfa"][r] < largest["term"][r] < largest["fedavg"][r]
    assert round(sent(found, "scaff_pd", 100) / sent(found, "fedavg", 100), 1) == 2.5
    assert round(sent(found, "scaff_pd", 100) / sent(found, "drfa", 100), 2) == 1.25
    assert round(sent(found, "term", 100) / sent(found, "fedavg", 100), 2) == 1.01
    worst = {method: found[method, "accuracy_worst"] for method in largest}
    assert worst["q_fedavg"][5] > worst["fedavg"][5] + 0.1


def test_the_table_of_networks_over_halves_is_that_of_the_lines():
    page = (LINES.parent / "choosing.md").read_text()
    found = {data: means(f"halves-{data}") for data in ("mnist", "a9a")}
    for method in ("split_training", "cvfl", "ef_vfl"):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{method}`")]
        numbers = [
            f"{f[method, 'accuracy'][2000]:.3f}, {f[method, 'loss'][2000]:.3f}"
            for f in found.values()
        ]
        up = f"{found['mnist'][method, 'bytes_up'][2000] / 1e6:.1f} MB"
        assert [cell.strip() for cell in row.split("|")[2:-1]] == [up, *numbers]


def test_what_is_said_of_split_training_on_digits():
    found = means("split")
    last = {method: found[method, "loss"][300] for method, column in found if column == "loss"}
    assert last["split_training"] < last["egvfl_nonlinear"] / 10
    assert round(sent(found, "egvfl_nonlinear", 300) / sent(found, "split_training", 300)) == 45
    for method in ("cvfl", "ef_vfl"):
        up = found[method, "bytes_up"][300] / found["split_training", "bytes_up"][300]
        assert up == 0.2 and 2.5 < last[method] / last["split_training"] < 3.5
