"""Metrics under secure sums: the server learns their means, and no site's own."""

import itertools
import json

import numpy as np
import polars as pl
import pytest

import fedloom as fl
from federation.harness import clients, federation, refused, settings
from fedloom.errors import FederationError, RefusedError
from fedloom.exchange.hub import Letter
from fedloom.exchange.secure.hub import SecureHub
from fedloom.federation.policy_file import set_policy

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
RUN = {"rounds": 2, "eval_every": 1, "metrics": ["loss", "accuracy", "objective", "sparsity"]}
SECURE = {"secure_aggregation": True}


def chosen(run=RUN, **federation):
    problem = {"weights": "size"}
    return settings(algorithm=FEDAVG, run=run, problem=problem, federation=federation)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    plain = federation(folder / "plain", chosen())[0].run()
    conductor, wires = federation(folder / "secure", chosen(**SECURE))
    heard = []
    answer = wires["lyon"].service.call
    wires["lyon"].service.call = lambda *call: heard.append((call, answer(*call))) or heard[-1][1]
    return plain, conductor.run(), wires["lyon"].service, heard


def test_means_are_those_of_plain_metrics(both):
    plain, secure, *_ = both
    for ours, theirs in zip(secure.rows, plain.rows, strict=True):
        for name in ("objective", "sparsity", "loss_rows", "accuracy_rows"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-5)


def test_the_mean_over_rows_is_that_of_the_simulator_and_the_headline(both):
    simulated = fl.simulate(
        chosen().algorithm, chosen().problem, clients(), **chosen().run.options()
    )
    for run in (*both[:2], simulated):
        assert run.headline == "loss_rows"
        for name in ("loss_rows", "accuracy_rows"):
            assert run.final[name] == pytest.approx(simulated.final[name], abs=1e-5)
    assert simulated.final["loss_rows"] != pytest.approx(simulated.final["loss"], abs=1e-4)


def test_no_metric_of_a_single_site_is_known(both):
    plain, secure, _, heard = both
    assert "loss_worst" in plain.final and "loss_worst" not in secure.final
    assert secure.client_metrics == {}
    own = plain.client_metrics["loss"][1]
    for (verb, *_), (told, data) in heard:
        assert verb in ("hello", "begin", "letter")
        values = np.frombuffer(data[: len(data) // 8 * 8], "<f8")
        assert not np.isclose(values, own, rtol=1e-6).any() and f"{own:.5f}" not in told


def told_sums(monkeypatch):
    """The sums of metrics that a server sees, one for each time that they are taken."""
    seen = []
    summed = SecureHub.summed

    def heard(hub, letters, message, count):
        arrived, total = summed(hub, letters, message, count)
        if letters[0].method == "measure":
            seen.append(total)
        return arrived, total

    monkeypatch.setattr(SecureHub, "summed", heard)
    return seen


@pytest.mark.parametrize("weights", ["equal", "size"])
def test_sums_of_metrics_do_not_tell_that_of_a_site_of_another_size(weights, tmp_path, monkeypatch):
    """S = sum v_i and T = sum n_i v_i did: berlin has 8 rows, and each of the others 14."""
    run = {"rounds": 1, "eval_every": 1, "metrics": ["loss", "accuracy"]}
    asked = {"algorithm": FEDAVG, "run": run, "problem": {"weights": weights}}
    own = federation(tmp_path / "plain", settings(**asked))[0].run().client_metrics["loss"][0]
    seen = told_sums(monkeypatch)
    result = federation(tmp_path / "secure", settings(**asked, federation=SECURE))[0].run()
    assert ("loss" in result.final) == (weights == "equal") != ("loss_rows" in result.final)
    assert result.headline in result.final
    for S, T in itertools.permutations(seen[-1], 2):
        for scale in (1, 36, 1024):
            assert (14 * S - scale * T) / 6 != pytest.approx(own, abs=1e-4)


def test_the_objective_and_metrics_over_rows_are_no_two_sums_of_the_same(tmp_path):
    run = {**RUN, "metrics": ["objective", "log_loss"]}
    uneven = settings(algorithm=FEDAVG, run=run, federation=SECURE)
    refused(federation(tmp_path / "uneven", uneven)[0], "must not come with 'log_loss'")
    result = federation(tmp_path / "size", chosen(run, **SECURE))[0].run()
    assert np.isfinite([result.final["objective"], result.final["log_loss"]]).all()


def test_a_single_site_is_not_measured(both):
    _, _, service, _ = both
    facts = {"after": [2, 1], "round": 2}
    with pytest.raises(RefusedError, match="would tell what secure sums hide"):
        service.call("measure", json.dumps(facts), b"")


@pytest.mark.parametrize("policy,rows", [({}, 0), ({"least_count": 5}, 4)])
def test_metrics_of_few_sites_are_no_sum(policy, rows, tmp_path):
    """Sites without test rows, or with too few, have nothing to add to what the others tell."""
    conductor, wires = federation(tmp_path, chosen(**SECURE), held=clients(4), **policy)
    for name in ("berlin", "lyon", "torino", "utrecht") if rows else ("lyon",):
        table = pl.read_parquet(tmp_path / "rows" / f"{name}.parquet")
        few = table if name == "lyon" else table[:rows]
        few.write_parquet(tmp_path / f"{name}-test.parquet")
        set_policy(wires[name].kit, test=str(tmp_path / f"{name}-test.parquet"))
        wires[name].restart()
    result = conductor.run()
    assert all(np.isnan(row["accuracy_rows"]) for row in result.rows)
    assert any("has too few test rows to tell 'loss'" in n for n in result.about["notes"])


def test_a_sum_of_metrics_is_taken_in_the_rounds_of_the_settings(both):
    *_, service, heard = both
    asked = [json.loads(call[1]) for call, _ in heard if call[0] == "letter"]
    (last, *_) = [facts for facts in asked if facts["method"] == "measure"][-1:]
    with pytest.raises(RefusedError, match="metrics are taken every 1 rounds up to round 2"):
        service._protected(Letter(**{**last, "round": 3, "body": b""}))


def test_where_the_owner_forbids_metrics_there_is_no_sum_of_them(tmp_path):
    conductor, _ = federation(tmp_path / "asked", chosen(**SECURE), metrics=False)
    refused(conductor, "lets no metrics leave")
    quiet = chosen({**RUN, "metrics": []}, **SECURE)
    result = federation(tmp_path / "quiet", quiet, metrics=False)[0].run()
    assert result.status == "done" and "loss" not in result.final


def test_scores_of_rows_are_not_asked_for(tmp_path):
    conductor, _ = federation(tmp_path, chosen({**RUN, "metrics": ["auc"]}, **SECURE), scores=True)
    with pytest.raises(FederationError, match="needs scores of single rows, which secure"):
        conductor.run()


def test_one_that_drops_out_of_the_sum_of_metrics_costs_that_row_only(tmp_path):
    conductor, wires = federation(tmp_path, chosen(**SECURE))

    def leave(verb, facts):
        told = json.loads(facts)
        if verb == "letter" and told["method"] == "measure" and told["round"] == 1:
            raise RefusedError("not now")

    answer = wires["lyon"].service.call

    def call(verb, facts, body):
        leave(verb, facts)
        return answer(verb, facts, body)

    wires["lyon"].service.call = call
    result = conductor.run()
    assert np.isnan(result.rows[1]["loss_rows"]) and np.isfinite(result.rows[2]["loss_rows"])
    assert any("the metrics of round 1 are not known" in n for n in result.about["notes"])
