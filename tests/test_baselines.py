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


def test_what_is_said_of_methods_over_columns():
    found = means("vertical")
    reached = {
        method: [r for r in sorted(rounds) if rounds[r] <= 1e-6][:1]
        for (method, column), rounds in found.items()
        if column == "relative_gap"
    }
    assert reached.pop("conjugate gradients") == [36] and not any(reached.values())
    optimistic, extra = "optimistic gradient", "EGVFL"
    assert abs(sent(found, optimistic, 200) / sent(found, extra, 100) - 1) < 0.001
    assert round(sent(found, extra, 100) / 1e6, 1) == 5.8
    assert f"{found[optimistic, 'relative_gap'][200]:.1e}" == "5.9e-03"
    assert f"{found[extra, 'relative_gap'][100]:.1e}" == "5.3e-03"


def test_what_is_said_of_saddle_methods_on_unlike_clients():
    found = means("minimax")
    last = {method: rounds[300] for (method, column), rounds in found.items() if column == "gap"}
    assert round(last.pop("codasca"), 4) == 0.0025 and round(last.pop("local_sgda"), 3) == 0.016
    assert {round(gap, 3) for gap in last.values()} == {0.019, 0.022}
    assert round(sent(found, "codasca", 300) / sent(found, "local_sgda", 300), 2) == 2


def test_what_is_said_of_composite_methods_on_unlike_clients():
    found = means("composite")
    gap = {method: rounds for (method, column), rounds in found.items() if column == "gap"}
    canon, decoupled = (list(gap[m].values()) for m in ("fedcanon", "decoupled_prox"))
    np.testing.assert_allclose(canon, decoupled, rtol=0.01, atol=1e-14)
    down = {m: found[m, "bytes_down"][250] for m in gap}
    assert down["fedcanon"] == 2 * down["decoupled_prox"]
    part = gap["fedcanon, 5 of 20 clients"]
    assert gap["fedcanon"][250] < part[250] < min(gap["fedmid"][250], gap["feddualavg"][250])
    for method in ("fedmid", "feddualavg"):
        assert gap[method][250] > 0.9 * gap[method][150] > 1e-3


def test_what_is_said_of_the_baselines_of_personal_models():
    found = means("personal")
    of = {method: rounds for (method, column), rounds in found.items() if column == "accuracy"}
    ten = {method: round(rounds[10], 2) for method, rounds in of.items()}
    assert (ten["local_training"], ten["fedavg"], ten["fine_tuning"]) == (0.98, 0.85, 0.98)
    assert of["apfl"][10] >= of["local_training"][10]
    first = {m: next(r for r in sorted(of[m]) if of[m][r] > 0.978) for m in ("ditto", "fedper")}
    assert set(first.values()) == {30}
    assert next(r for r in sorted(of["fedrep"]) if of["fedrep"][r] > 0.98) == 45
    assert max(rounds[60] for rounds in of.values()) < of["local_training"][60] + 0.02
    for method in ("fedper", "fedrep"):
        assert round(sent(found, method, 60) / sent(found, "fedavg", 60), 2) == 0.94
