"""What a malicious site, server or submitter tries, and what a site makes of it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from federation import parties
from federation.harness import federation, refused, settings
from fedloom.errors import FederationError, RefusedError
from fedloom.federation.site.service import SiteService

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
NOISY = {"clip": 0.1, "noise": 1.0}


def overheard(folder, chosen, **policy):
    """A run, with every call that berlin has answered, and the answers."""
    conductor, wires = federation(folder, chosen, **policy)
    calls = []
    line, answer = wires["berlin"], wires["berlin"].service.call

    def listening(verb, facts, body):
        given = answer(verb, facts, body)
        calls.append((verb, facts, body, given))
        return given

    line.service.call = listening
    return conductor, line, calls


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noisy")
    chosen = settings(algorithm=FEDAVG, run={"rounds": 2, "eval_every": 1})
    conductor, line, calls = overheard(folder, chosen, **NOISY)
    conductor.run()
    return line.kit, calls


def resumed(kit, calls):
    """The site after a restart, told of the same run again."""
    service = SiteService(kit)
    for verb, facts, body, _ in calls:
        if verb in ("hello", "begin"):
            service.call(verb, facts, body)
    return service


def of(calls, verb, round):
    return next(c for c in calls if c[0] == verb and json.loads(c[1])["round"] == round)


@pytest.mark.parametrize("caller,answered", [("server", True), ("lyon", False)])
def test_only_the_server_may_ask(caller, answered, tmp_path, monkeypatch):
    from fedloom.federation import components

    _, wires = federation(tmp_path, settings())
    workspace = SimpleNamespace(get_root_dir=lambda: str(wires["berlin"].kit))
    context = SimpleNamespace(
        caller=caller, server=SimpleNamespace(name="server"), workspace=workspace
    )
    monkeypatch.setattr(components, "collab", context)
    side = components.SiteSide()
    if answered:
        assert side.call("ping", "{}", b"") == ["{}", b""]
    else:
        with pytest.raises(RefusedError, match="only the server of the run may ask"):
            side.call("ping", "{}", b"")
        assert side._desk is None  # nothing was read for it


def test_a_second_hello_changes_nothing(noisy):
    kit, calls = noisy
    service = resumed(kit, calls)
    _, facts, body, given = calls[0]
    assert service.call("hello", facts, body) == given
    other = json.loads(facts)
    other["tables"]["data"]["label"] = "x0"
    with pytest.raises(RefusedError, match="has heard of a run already"):
        service.call("hello", json.dumps(other), body)
    assert service.call(*of(calls, "letter", 2)[:3]) == of(calls, "letter", 2)[3]


def test_the_same_letter_gets_the_same_reply_after_a_restart_too(noisy):
    kit, calls = noisy
    letter = of(calls, "letter", 2)
    for _ in range(3):  # what is drawn anew could be averaged away
        assert resumed(kit, calls).call(*letter[:3]) == letter[3]


def test_another_letter_for_an_exchange_that_was_answered_is_refused(noisy):
    kit, calls = noisy
    service = resumed(kit, calls)
    verb, facts, body, _ = of(calls, "letter", 2)
    other = body[:-4] + np.float32(7).tobytes()
    with pytest.raises(RefusedError, match="asked otherwise before"):
        service.call(verb, facts, other)
    again = json.dumps(json.loads(facts) | {"cohort": 2})
    with pytest.raises(RefusedError, match="asked otherwise before"):
        service.call(verb, again, body)


def test_a_private_method_answers_an_exchange_once(tmp_path):
    wrapper = {"kind": "private", "clip": 0.1, "noise": 1.0, "at": "client"}
    chosen = settings(algorithm=FEDAVG, run={"rounds": 1, "eval_every": 1}, wrapper=[wrapper])
    conductor, line, calls = overheard(tmp_path, chosen)
    conductor.run()
    verb, facts, body, given = of(calls, "letter", 1)
    assert line.service.call(verb, facts, body) == given
    with pytest.raises(RefusedError, match="asked otherwise before"):
        line.service.call(verb, facts, body[:-4] + np.float32(7).tobytes())


def test_metrics_are_taken_in_the_rounds_of_the_settings_and_once(noisy):
    kit, calls = noisy
    service = resumed(kit, calls)
    verb, facts, body, given = of(calls, "measure", 2)
    assert service.call(verb, facts, body) == given
    with pytest.raises(RefusedError, match="asked otherwise before"):  # finite differences
        service.call(verb, facts, body[:-4] + np.float32(1e-3).tobytes())
    for round in (3, -1, 0.5, None, "2"):
        wrong = json.dumps(json.loads(facts) | {"round": round})
        with pytest.raises(RefusedError, match="metrics are taken every 1 rounds up to round 2"):
            service.call(verb, wrong, body)


def test_where_the_owner_forbids_metrics_the_run_goes_on_and_none_can_be_had(tmp_path):
    chosen = settings(algorithm=FEDAVG, run={"rounds": 1, "eval_every": 1, "metrics": []})
    conductor, wires = federation(tmp_path, chosen, metrics=False)
    asked = []
    wires["berlin"].before = lambda verb, facts: asked.append((verb, facts))
    result = conductor.run()
    assert result.status == "done" and "loss" not in result.final
    verb, facts = next(call for call in asked if call[0] == "measure")
    with pytest.raises(RefusedError, match="lets no metrics leave"):
        wires["berlin"].service.call(verb, facts, b"")


def test_metrics_that_the_settings_do_not_name_cannot_be_had(tmp_path):
    run = {"rounds": 1, "eval_every": 1, "metrics": ["accuracy"]}
    conductor, wires = federation(tmp_path, settings(algorithm=FEDAVG, run=run))
    line, told = wires["berlin"], []
    answer = line.service.call

    def greedy(verb, facts, body):
        if verb == "measure":
            facts = json.dumps(json.loads(facts) | {"metrics": ["accuracy", "loss"], "value": True})
        given = answer(verb, facts, body)
        if verb == "measure":
            told.append(json.loads(given[0]))
        return given

    line.service.call = greedy
    conductor.run()
    assert told and all(set(facts) == {"accuracy", "rows", "scored"} for facts in told)


def test_rounds_long_gone_are_not_answered_again(noisy):
    kit, calls = noisy
    service = resumed(kit, calls)
    verb, facts, body, _ = of(calls, "measure", 0)
    with pytest.raises(RefusedError, match="round 0 is asked for too late"):
        service.call(verb, facts, body)


def test_metrics_leave_as_coarse_as_the_owner_says(tmp_path):
    chosen = settings(algorithm=FEDAVG, run={"rounds": 1, "eval_every": 1})
    conductor, _, calls = overheard(tmp_path, chosen, metric_digits=1)
    conductor.run()
    told = json.loads(of(calls, "measure", 1)[3][0])
    assert told["loss"] == float(f"{told['loss']:.1g}")


def test_metrics_leave_with_noise_where_the_owner_says_so(tmp_path):
    chosen = settings(algorithm=FEDAVG, run={"rounds": 1, "eval_every": 1})
    told = []
    for name, noise in (("exact", {}), ("noisy", {"metric_noise": 0.01})):
        conductor, _, calls = overheard(tmp_path / name, chosen, **noise)
        conductor.run()
        told.append(json.loads(of(calls, "measure", 1)[3][0]))
    for metric in ("loss", "accuracy"):
        assert 0 < abs(told[0][metric] - told[1][metric]) < 0.1


@pytest.mark.parametrize("policy", [{"metric_noise": 0.5}, {"metric_digits": 2}])
def test_scores_do_not_lead_round_the_noise_on_metrics(policy, tmp_path):
    run = {"rounds": 1, "eval_every": 1, "metrics": ["auc"]}
    conductor, _ = federation(
        tmp_path / "rows", settings(algorithm=FEDAVG, run=run), scores=True, **policy
    )
    refused(conductor, "the metric 'auc' is made of scores of rows, which leave as they are")
    conductor, _ = parties.federation(tmp_path / "columns", parties.settings(), **policy)
    refused(conductor, "all metrics of a vertical run are made of scores of rows")


def test_a_compressor_does_not_lead_round_the_clip(tmp_path):
    wrapper = {"kind": "compressed", "compressor": {"kind": "random_rounding", "levels": 4}}
    chosen = settings(algorithm=FEDAVG, run={"rounds": 1}, wrapper=[wrapper])
    conductor, _ = federation(tmp_path, chosen, **NOISY)
    refused(conductor, "neither clip nor noise can protect")


@pytest.mark.parametrize(
    "demand,complaint",
    [
        ({"secure_aggregation": True}, "demands secure aggregation"),
        ({"min_batch": 10}, "gradients of at least 10 rows; the job has batch_size = 4"),
        ({"min_rows": 10}, "wants at least 10 rows to take part"),
        ({"metrics": False}, "lets no metrics leave"),
        ({"min_sites": 4}, "at least 4 sites"),
    ],
)
def test_what_the_owner_demands(demand, complaint, tmp_path):
    refused(federation(tmp_path, settings(), **demand)[0], complaint)


def test_a_policy_is_careful_by_itself():
    from fedloom.federation.policy import Policy

    policy = Policy()
    assert (policy.min_sites, policy.min_rows, policy.min_batch) == (3, 10, 10)
    assert policy.methods == policy.problems == ()


def spoilt(line, rounds=lambda round: True):
    """The site behind a line sends junk in the place of replies."""
    answer = line.service.call

    def call(verb, facts, body):
        given = answer(verb, facts, body)
        junk = verb == "letter" and rounds(json.loads(facts)["round"])
        return (given[0], b"junk") if junk else given

    line.service.call = call


def test_a_run_to_which_too_few_contribute_does_not_end_well(tmp_path, monkeypatch):
    monkeypatch.setattr("fedloom.federation.server.course.PAUSE_SECONDS", 0)
    conductor, wires = federation(tmp_path, settings(algorithm=FEDAVG))
    for line in wires.values():
        spoilt(line)
    with pytest.raises(FederationError, match="the run needs 3 sites, and some will not take part"):
        conductor.run()


def test_a_site_that_sends_junk_again_and_again_is_left_out_and_named(tmp_path):
    chosen = settings(algorithm=FEDAVG, federation={"min_sites": 2})
    conductor, wires = federation(tmp_path, chosen)
    spoilt(wires["lyon"])
    result = conductor.run()
    assert result.status == "done" and result.final["sites"] == 2
    (note,) = [note for note in result.about["notes"] if "for good" in note]
    assert note.startswith("lyon is left out for good, after 3 replies that are none")
    assert sum("a reply of lyon is refused" in note for note in result.about["notes"]) == 3


def test_one_bad_reply_costs_one_round_at_that_site(tmp_path):
    chosen = settings(algorithm=FEDAVG, federation={"min_sites": 2}, run={"eval_every": 1})
    conductor, wires = federation(tmp_path, chosen)
    spoilt(wires["lyon"], lambda round: round in (2, 3, 5))
    result = conductor.run()
    assert [row["sites"] for row in result.rows] == [3, 3, 2, 2, 3, 2, 3]
