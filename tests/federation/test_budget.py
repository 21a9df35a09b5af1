"""A site's privacy budget: counted over all runs, by an account of its own, and kept."""

import json

import numpy as np
import pytest

import fedloom as fl
from federation.harness import clients, federation, policies, refused, settings
from fedloom.cli.main import main
from fedloom.errors import FederationError, ParameterError, RefusedError
from fedloom.federation.kits import Kit
from fedloom.federation.policy import Policy
from fedloom.federation.policy_file import read_policy, set_policy
from fedloom.federation.site.budget import FILE, Budget, noise_of
from fedloom.measuring.privacy_ledger import gaussian_epsilon

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
RUN = {"rounds": 3, "eval_every": 1}
NOISY = {"clip": 0.1, "noise": 20.0}
QUIET = {"metrics": False, **NOISY}
LOCAL = {"kind": "private", "clip": 0.1, "noise": 20.0, "at": "client"}


def chosen(**run):
    return settings(algorithm=FEDAVG, run={**RUN, **run})


def spent(kit):
    return json.loads((kit / FILE).read_text())["runs"]


def by_hand(replies, noise, delta):
    """Rényi divergences of Gaussians two clips apart, by the bound of Canonne et al. (2020)."""
    orders = np.concatenate([np.arange(1.01, 11, 0.01), np.arange(11.0, 500)])
    divergence = replies * orders * (2 / noise) ** 2 / 2
    slack = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return float(np.min(divergence + slack))


@pytest.mark.parametrize("replies,noise,delta", [(1, 5.0, 1e-5), (30, 20.0, 1e-5), (400, 9, 1e-6)])
def test_the_account_agrees_with_the_formula(replies, noise, delta):
    ours, theirs = gaussian_epsilon({noise: replies}, delta), by_hand(replies, noise, delta)
    assert ours == pytest.approx(theirs, rel=0.01) and ours >= theirs * (1 - 1e-9)


def test_noise_beyond_what_can_be_squared_has_an_epsilon():
    assert gaussian_epsilon({1e300: 3}, 1e-5) == gaussian_epsilon({1e100: 3}, 1e-5) < 1e-3


def test_every_row_shows_epsilon_where_sites_add_noise(tmp_path):
    conductor, wires = federation(tmp_path, chosen(), **NOISY)
    result = conductor.run()
    shown = [row["epsilon"] for row in result.rows]
    assert shown == [gaussian_epsilon({20.0: k}, 1e-5) for k in range(4)]
    assert result.about["privacy"]["noise"] == dict.fromkeys(("berlin", "lyon", "torino"), 20.0)
    for wire in wires.values():
        assert spent(wire.kit)["a-run"]["replies"] == {"20.0": 3}


def test_a_private_method_shows_the_same_epsilon_as_in_a_simulation(tmp_path):
    private = settings(algorithm=FEDAVG, run=RUN, wrapper=[LOCAL])
    result = federation(tmp_path, private)[0].run()
    options = private.run.options()
    simulated = fl.simulate(private.algorithm, private.problem, clients(), **options)
    assert [r["epsilon"] for r in result.rows] == [r["epsilon"] for r in simulated.rows]
    assert result.about["privacy"] == simulated.about["privacy"]
    assert spent(tmp_path / "lyon")["a-run"]["replies"] == {"20.0": 3}


def test_who_is_drawn_is_no_secret_where_all_sites_know_the_seed(tmp_path):
    """So a sample hides nobody from the others, and epsilon is that of who is always asked."""
    hub = {**LOCAL, "noise": 4.0, "at": "hub"}
    private = settings(algorithm={**FEDAVG, "cohort": 1}, run=RUN, wrapper=[hub])
    result = federation(tmp_path, private, held=clients(5))[0].run()
    assert result.final["epsilon"] == gaussian_epsilon({4.0: 3}, 1e-5)
    options = private.run.options()
    simulated = fl.simulate(private.algorithm, private.problem, clients(5), **options)
    assert simulated.final["epsilon"] < 0.8 * result.final["epsilon"]


@pytest.mark.parametrize("at", ["client", "hub"])
def test_the_noise_of_a_private_method_cannot_be_drawn_again_by_the_seed(at, tmp_path):
    private = settings(algorithm=FEDAVG, run=RUN, wrapper=[{**LOCAL, "at": at}])
    result = federation(tmp_path, private)[0].run()
    options = private.run.options()
    seeded = fl.simulate(private.algorithm, private.problem, clients(), **options)
    norm = np.linalg.norm
    assert norm(result.model - seeded.model) > 0.1 * norm(seeded.model)


def test_a_site_answers_nothing_once_its_budget_is_spent(tmp_path, monkeypatch):
    monkeypatch.setattr("fedloom.federation.server.course.PAUSE_SECONDS", 0)
    enough = gaussian_epsilon({20.0: 5}, 1e-5)
    policy = {**QUIET, "epsilon": enough + 1e-6}
    conductor, wires = federation(tmp_path, chosen(metrics=[]), **policy)
    assert conductor.run().status == "done"
    again, _ = federation(tmp_path, chosen(metrics=[]), wires=wires, run="another")
    with pytest.raises(FederationError, match="privacy budget is spent"):
        again.run()
    assert spent(wires["lyon"].kit)["another"]["replies"] == {"20.0": 2}  # five in all
    third, _ = federation(tmp_path, chosen(metrics=[]), wires=wires, run="third")
    refused(third, "do not take part: this site's privacy budget is spent")


def test_the_same_letter_costs_nothing(tmp_path):
    conductor, wires = federation(tmp_path, chosen(metrics=[]), **QUIET, epsilon=50.0)
    calls = []
    line, answer = wires["berlin"], wires["berlin"].service.call
    line.service.call = lambda *call: calls.append((call, answer(*call))) or calls[-1][1]
    conductor.run()
    before = spent(line.kit)
    last = next(call for call in reversed(calls) if call[0][0] == "letter")
    assert answer(*last[0]) == last[1] and spent(line.kit) == before


def test_a_reply_without_noise_is_not_given_where_there_is_a_budget(tmp_path):
    conductor, _ = federation(tmp_path, chosen(metrics=[]), metrics=False, epsilon=3.0)
    refused(conductor, "would leave it without noise")
    central = settings(
        algorithm=FEDAVG, run={**RUN, "metrics": []}, wrapper=[{**LOCAL, "at": "hub"}]
    )
    conductor, _ = federation(tmp_path / "hub", central, metrics=False, epsilon=3.0)
    refused(conductor, "would leave it without noise")


def test_metrics_would_go_round_a_budget():
    with pytest.raises(ParameterError, match="epsilon must come with metrics = false"):
        Policy(epsilon=1.0, clip=1.0, noise=1.0)


def test_runs_without_noise_are_told_as_unbounded(tmp_path, capsys):
    conductor, wires = federation(tmp_path, chosen())
    conductor.run()
    kit = wires["lyon"].kit
    assert spent(kit)["a-run"]["replies"] == {"none": 1}  # one is as bad as many
    (row, total) = Budget(kit, read_policy(kit)).rows()
    assert row["epsilon"] == total["epsilon"] == "unbounded"


def test_a_damaged_account_is_not_a_fresh_one(tmp_path):
    (kit, *_) = policies(tmp_path, clients(), **QUIET, epsilon=3.0)
    budget = Budget(kit, read_policy(kit))
    budget.spend("a-run", 20.0)
    text = (kit / FILE).read_text()
    (kit / FILE).write_text(text.replace('"20.0": 1', '"20.0": 0'))
    with pytest.raises(RefusedError, match="is damaged"):
        budget.spend("a-run", 20.0)
    assert (kit / FILE).stat().st_mode & 0o777 == 0o600


def test_the_larger_noise_counts():
    private = settings(algorithm=FEDAVG, wrapper=[LOCAL]).algorithm
    assert noise_of(Policy(), private) == 20.0
    assert noise_of(Policy(clip=1.0, noise=30.0), private) == 30.0
    assert noise_of(Policy(clip=1.0), settings(algorithm=FEDAVG).algorithm) is None


def test_the_owner_sees_the_account(tmp_path, capsys):
    (kit, *_) = policies(tmp_path, clients(), **QUIET)
    set_policy(kit, epsilon=3.0)
    Budget(kit, read_policy(kit)).spend("first", 20.0)
    Kit(kit, "site", "berlin", "example", "hospitals").write_card()
    assert main(["budget", str(kit)]) == 0
    told = capsys.readouterr().out
    assert (
        "first" in told and "all runs" in told and "epsilon at delta 1e-05; the budget is 3" in told
    )
    assert main(["budget", str(kit), "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["budget"] == 3.0 and [row["replies"] for row in facts["runs"]] == [1, 1]
