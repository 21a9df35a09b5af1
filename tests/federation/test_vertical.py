"""Parties with columns of the same people: a label party's server and its parties, no network."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest

import fedloom as fl
from federation.parties import NAMES, OWN, federation, settings, together
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.errors import FederationError, RefusedError
from fedloom.exchange import wire
from fedloom.experiments import building, registries
from fedloom.federation.policy_file import set_policy
from fedloom.federation.server.sites import SiteError
from fedloom.hints import needs
from tiers import in_turn


def simulated(folder, chosen):
    parties = together(folder / "files", chosen)
    return fl.simulate(chosen.algorithm, chosen.problem, parties, **chosen.run.options())


def same(result, expected):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        result.state.hub,
        expected.state.hub,
    )
    for ours, theirs in zip(result.rows, expected.rows, strict=True):
        assert (ours["bytes_up"], ours["bytes_down"]) == (theirs["bytes_up"], theirs["bytes_down"])
        for name in ours.keys() & {"accuracy", "loss", "objective"}:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-5)
    for name, column in expected.client_metrics.items():
        np.testing.assert_allclose(result.client_metrics[name], column, rtol=1e-5)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    conductor, _ = federation(folder, settings())
    return folder, conductor.run()


def test_it_ends_where_the_simulator_ends(undisturbed):
    folder, result = undisturbed
    expected = simulated(folder, settings())
    same(result, expected)
    assert "60 people known to all" in result.about["alignment"]
    assert result.model == {}  # shares stay with their parties
    for name in NAMES:
        kept = wire.read((folder / name / "shares" / "a-run" / "share.safetensors").read_bytes())
        np.testing.assert_allclose(kept["value"], expected.model[name], rtol=1e-5, atol=1e-6)


# What is said by the other methods is known from widths alone: tests/core/test_schema.py.
@pytest.mark.parametrize("key", in_turn(["egvfl_compressed", "sharing_admm"], ["sharing_admm"]))
def test_other_vertical_methods_end_where_the_simulator_ends(key, tmp_path):
    table = building.describe(CATALOGUE[key].example(), registries.ALGORITHMS, tag="key")
    run = {"rounds": 4, "eval_every": 4, "metrics": ["loss", "objective"]}
    chosen = settings(algorithm=table, run=run, problem={"loss": "squared"})
    conductor, _ = federation(tmp_path, chosen, methods=[key])
    same(conductor.run(), simulated(tmp_path, chosen))


def test_a_fusion_model_comes_home_and_predicts_with_the_shares_of_the_parties(tmp_path):
    small = {"kind": "mlp", "hidden": [3]}
    chosen = settings(
        algorithm={"key": "ef_vfl", "compressor": {"kind": "topk", "per_cent": 40}, "lr": 0.02},
        problem={"network": small, "embedding": 2, "fusion": small},
        run={"rounds": 4, "eval_every": 4, "batch_size": 16},
    )
    conductor, _ = federation(tmp_path, chosen, methods=["ef_vfl"])
    result, expected = conductor.run(), simulated(tmp_path, chosen)
    same(result, expected)
    assert set(result.model) == {"label party"}
    result.save(tmp_path / "home")
    fl.save_shares(fl.load(tmp_path / "home"), tmp_path / "shares")
    for name in NAMES:  # which each brings along
        (tmp_path / name / "shares" / "a-run").rename(tmp_path / "shares" / name)
    parties = together(tmp_path / "files", chosen)
    features = dict(zip(parties.names, parties.test_features, strict=True))
    backwards = dict(reversed(features.items()))  # the fusion model knows the order
    scores = fl.joint_predict(chosen.problem, backwards, tmp_path / "shares")
    assert np.mean((scores > 0) == parties.test_y) == pytest.approx(expected.final["accuracy"])
    del features["clinic"]
    with pytest.raises(fl.FedloomError, match="features must be given for laboratory, clinic"):
        fl.joint_predict(chosen.problem, features, tmp_path / "shares")


def test_new_people_are_predicted_from_raw_tables_with_what_each_party_kept(tmp_path, undisturbed):
    folder, result = undisturbed
    chosen, expected = settings(), simulated(folder, settings())
    shares = tmp_path / "shares"
    for name in (*NAMES, "server"):  # which each brings along, the server for the label party
        own = (folder / name / "shares" / "a-run" / "share.safetensors").read_bytes()
        place = shares / ("label party" if name == "server" else name)
        place.mkdir(parents=True)
        (place / "share.safetensors").write_bytes(own)
        columns = {"laboratory": "marker", "clinic": "ward", "insurer": "income"}
        assert {n for n, column in columns.items() if column.encode() in own} == {name} & {*NAMES}
        assert (rb"[\"no\", \"yes\"]" in own) == (name == "server")
    files = {name: folder / "files" / f"{name}.parquet" for name in reversed(NAMES)}
    with pytest.warns(UserWarning, match="60 people known to all"):
        said = fl.joint_predict(chosen.problem, files, shares)
    with pytest.warns(UserWarning, match="60 people known to all"):
        alike = fl.predict(expected, files, problem=chosen.problem)
    assert said["who"].to_list() == alike["who"].to_list()
    np.testing.assert_allclose(said["probability of yes"], alike["probability of yes"], atol=1e-5)
    assert not any(word in json.dumps(result.about) for word in ('"ward', '"yes"', '"marker'))
    with pytest.raises(fl.FedloomError, match="is of a federation, whose parties keep their share"):
        fl.predict(result, files, problem=chosen.problem)


def test_labels_leave_only_where_the_label_party_allows_the_method_that_sends_them(tmp_path):
    table = building.describe(CATALOGUE["cvfl"].example(), registries.ALGORITHMS, tag="key")
    conductor, _ = federation(tmp_path, settings(algorithm=table), methods=["cvfl"])
    with pytest.raises(FederationError, match=r"cvfl sends the labels .* has not allowed it"):
        conductor.run()
    set_policy(tmp_path / "server", methods=["cvfl"], **OWN)
    assert conductor._of_all()


def test_ids_are_matched_in_private(tmp_path):
    try:
        needs("private_set_intersection.python", "psi")
    except fl.FedloomError:
        pytest.skip("the psi extra (openmined-psi) has no wheel for this platform")
    chosen = settings(data={"join": "private"})
    conductor, wires = federation(tmp_path, chosen, plain_ids=False)
    sent = []
    original = wires["clinic"].service.call

    def heard(verb, facts, body):
        answer = original(verb, facts, body)
        sent.append((verb, body, answer[1]))
        return answer

    wires["clinic"].service.call = heard
    result = conductor.run()
    same(result, simulated(tmp_path, settings()))
    (meeting,) = [(asked, told) for verb, asked, told in sent if verb == "meet"]
    assert not any(b'p12"' in data or b"p12\n" in data for data in meeting)
    (people,) = [json.loads(asked) for verb, asked, _ in sent if verb == "begin"]
    assert len(people) == 60 and "p3" not in people  # whom not all know is not named


@pytest.mark.parametrize("at", [7])
def test_a_label_party_that_dies_goes_on_from_its_checkpoint(at, tmp_path, undisturbed):
    conductor, wires = federation(tmp_path, settings())

    def die(verb, facts):
        if verb == "letter" and json.loads(facts)["round"] == at:
            raise KeyboardInterrupt

    wires["insurer"].before = die
    with pytest.raises(KeyboardInterrupt):
        conductor.run()
    wires["insurer"].before = lambda verb, facts: None
    for line in wires.values():
        line.restart()
    resumed, _ = federation(tmp_path, settings(), wires=wires, resume=True)
    jax.tree.map(np.testing.assert_array_equal, resumed.run().state.hub, undisturbed[1].state.hub)


def test_the_run_waits_for_a_party_that_is_lost(tmp_path, undisturbed):
    conductor, wires = federation(tmp_path, settings())
    lost = []

    def lose(verb, facts):
        if verb == "letter" and json.loads(facts)["round"] == 5 and not lost:
            lost.append(1)
            raise SiteError("TimeoutError", "the reply was lost")

    wires["clinic"].after = lose
    result = conductor.run()
    assert any("paused" in note for note in conductor.notes)
    jax.tree.map(np.testing.assert_array_equal, result.state.hub, undisturbed[1].state.hub)


def test_a_sum_without_a_party_is_never_taken(tmp_path):
    conductor, wires = federation(tmp_path, settings())
    service = wires["clinic"].service
    original = service.call

    def damaged(verb, facts, body):
        answer, data = original(verb, facts, body)
        spoilt = verb == "letter" and json.loads(facts)["round"] == 2
        return answer, data[:-4] + b"\x00\x00\xc0\x7f" if spoilt else data

    service.call = damaged
    with pytest.raises(
        FederationError, match="needs a valid reply from every site; clinic sent none"
    ):
        conductor.run()


def test_with_secure_sums_the_label_party_learns_no_part_of_the_scores(tmp_path):
    step = {"key": "egvfl", "step": 0.05}
    run = {"metrics": ["accuracy", "loss"]}
    chosen = settings(algorithm=step, run=run, federation={"secure_aggregation": True})
    conductor, wires = federation(tmp_path, chosen)
    verbs = []
    for line in wires.values():
        line.before = lambda verb, facts: verbs.append(verb)
    result = conductor.run()
    assert "measure" not in verbs
    with pytest.raises(RefusedError, match="what secure sums hide"):
        wires["clinic"].service.call("measure", json.dumps({"after": [20, 2], "round": 20}), b"")
    plain = simulated(tmp_path, settings(algorithm=step, run=run))
    np.testing.assert_allclose(result.state.hub.slack, plain.state.hub.slack, atol=1e-6)
    assert result.final["accuracy"] > 0.8


def test_a_party_that_lets_no_metrics_leave_takes_part_in_a_run_without(tmp_path):
    quiet = settings(run={"rounds": 2, "eval_every": 1, "metrics": []})
    conductor, wires = federation(tmp_path, quiet, clip=0.1, noise=20.0, epsilon=9.0, metrics=False)
    result = conductor.run()
    assert result.status == "done" and "loss" not in result.final
    loud, wires = federation(tmp_path / "loud", quiet)  # by the owners' word they might be taken
    loud.run()
    with pytest.raises(RefusedError, match="the settings of the run name no metrics"):
        wires["clinic"].service.call("measure", '{"after": [1, 1], "round": 1}', b"")


def test_a_share_that_is_not_kept_ends_the_run_and_resuming_keeps_it(tmp_path):
    conductor, wires = federation(tmp_path, settings())
    kept = tmp_path / "clinic" / "shares"
    kept.write_text("in the way")
    with pytest.raises(FederationError, match="clinic could not keep its share"):
        conductor.run()
    kept.unlink()
    resumed, _ = federation(tmp_path, settings(), wires=wires, resume=True)
    assert resumed.run().status == "done"
    assert (kept / "a-run" / "share.safetensors").exists()


def test_a_label_table_that_has_changed_is_found_out(tmp_path):
    conductor, wires = federation(tmp_path, settings())
    conductor.run()
    file = tmp_path / "files" / "laboratory.parquet"
    pl.read_parquet(file)[5:].write_parquet(file)
    with pytest.raises(FederationError, match="lacks people whom the run began with"):
        federation(tmp_path, settings(), wires=wires, resume=True)[0].run()


REFUSALS = {
    "plain ids": ({"plain_ids": False}, {}, "lets no ids leave in plain"),
    "a column": ({"features": ["age"]}, {}, "the job wants"),
    "a quorum": ({}, {"federation": {"min_sites": 2}}, "federation.min_sites must be left out"),
    "a hidden metric": (
        {},
        {"federation": {"secure_aggregation": True}, "algorithm": {"key": "egvfl", "step": 0.1}},
        "metric 'objective' needs what secure aggregation hides",
    ),
    "an id": ({}, {"data": {"id": "name"}}, "allows the id who; the job wants 'name'"),
    "a label": ({}, {"data": {"label": "ward"}}, "allows the labels ill; the job wants 'ward'"),
}


@pytest.mark.parametrize("policy,changes,complaint", REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_done_is_refused(policy, changes, complaint, tmp_path):
    conductor, _ = federation(tmp_path, settings(**changes), **policy)
    with pytest.raises(fl.FedloomError) as raised:
        conductor.run()
    assert complaint in f"{raised.value} {conductor.notes}"


def test_a_server_without_labels_says_what_it_needs(tmp_path):
    conductor, _ = federation(tmp_path, settings(), labels=False)
    with pytest.raises(FederationError, match="fedloom serve KIT --data"):
        conductor.run()


@pytest.mark.parametrize("name", ["..", "", "/tmp/x", "a/../../b"])
def test_a_party_of_a_result_of_others_names_no_other_folder(name, tmp_path):
    forged = SimpleNamespace(model={name: {"w": np.zeros(2)}}, client_names=(name,), about={})
    with pytest.raises(fl.FedloomError, match="must be that of one folder"):
        fl.save_shares(forged, tmp_path / "shares")
    assert not list(tmp_path.rglob("*.safetensors"))
