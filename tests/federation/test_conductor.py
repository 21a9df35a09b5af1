"""Server and sites of a federation, without the network between them."""

import json
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import fedloom as fl
from federation.harness import (
    ALGORITHM,
    NAMES,
    clients,
    federation,
    policies,
    refused,
    same_to_rounding,
    settings,
    settings_for,
)
from fedloom.errors import FederationError, SettingsError
from fedloom.federation.job import job_of
from fedloom.federation.server import sites
from fedloom.federation.server.assembly import Assembly
from fedloom.federation.server.sites import SiteError
from fedloom.measuring import evaluation
from tiers import in_turn


@pytest.fixture(scope="module")
def simulated():
    chosen = settings()
    return fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())


def same_bits(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.state.hub, other.state.hub)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    conductor, _ = federation(tmp_path_factory.mktemp("undisturbed"), settings())
    return conductor.run()


def test_it_ends_where_the_simulator_ends(undisturbed, simulated):
    np.testing.assert_allclose(undisturbed.model, simulated.model, rtol=1e-6, atol=1e-7)
    for ours, theirs in zip(undisturbed.rows, simulated.rows, strict=True):
        for name in ("round", "bytes_up", "bytes_down"):
            assert ours[name] == theirs[name]
        for name in ("loss", "loss_worst", "accuracy"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-5)
    assert undisturbed.client_names == ("berlin", "lyon", "torino")


@pytest.mark.parametrize(
    "key", in_turn(["decoupled_prox", "drfa", "ffmdr", "quped"], ["drfa", "ffmdr"])
)
def test_a_method_of_each_family_ends_where_the_simulator_ends(key, tmp_path):
    chosen = settings_for(key)
    methods = {"methods": [key], "problems": ["logistic", "auc", "personal"]}
    conductor, _ = federation(tmp_path, chosen, **methods)
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    result = conductor.run()
    same_to_rounding(result.model, simulated.model)
    assert result.final["bytes_up"] == simulated.final["bytes_up"]
    for i, name in enumerate(clients().names if key == "quped" else ()):
        own = fl.deploy.take(chosen.algorithm, chosen.problem, clients(), simulated, i)
        kept = fl.load(tmp_path / name / "models" / "a-run.safetensors")
        same_to_rounding(kept.arrays, own.arrays)  # the model that is the site's own


def test_auc_is_taken_over_the_rows_of_all_sites_where_scores_may_leave(tmp_path):
    chosen = settings_for("ffmdr", run={"metrics": ["auc", "accuracy"]})
    policy = {"methods": ["ffmdr"], "problems": ["auc"]}
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    conductor, _ = federation(tmp_path / "open", chosen, scores=True, **policy)
    assert conductor.run().final["auc"] == pytest.approx(simulated.final["auc"], abs=1e-6)
    conductor, _ = federation(tmp_path / "closed", chosen, **policy)
    with pytest.raises(FederationError, match="lets no scores of rows leave"):
        conductor.run()


def test_a_result_can_be_kept_and_read(undisturbed, tmp_path):
    undisturbed.save(tmp_path / "kept")
    again = fl.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.model, undisturbed.model)
    assert again.about["engine"] == "federation"


def test_a_site_compiles_its_evaluation_once(tmp_path, monkeypatch):
    asked, traced = [], []
    measure = evaluation.measure
    monkeypatch.setattr(evaluation, "measure", lambda *args: traced.append(1) or measure(*args))
    conductor, wires = federation(tmp_path, settings(problem={"l2": 0.2}, run={"eval_every": 2}))
    for wire in wires.values():
        wire.before = lambda verb, facts: asked.append(verb)
    conductor.run()
    assert asked.count("measure") == 4 * len(NAMES)  # before the first round, after 2, 4 and 6
    assert len(traced) <= len(NAMES)  # each has another number of rows


@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_server_that_dies_goes_on_from_its_checkpoint(at, tmp_path, undisturbed):
    conductor, wires = federation(tmp_path, settings())

    def die(verb, facts):
        if verb == "letter" and json.loads(facts)["round"] == at:
            raise KeyboardInterrupt  # as sudden as a kill: nothing is cleaned up

    # Two of three sites have answered the round already, and moved their states on.
    wires["torino"].before = die
    with pytest.raises(KeyboardInterrupt):
        conductor.run()
    wires["torino"].before = lambda verb, facts: None
    for wire in wires.values():
        wire.restart()  # the sites' processes end with the job; their states are in files
    resumed, _ = federation(tmp_path, settings(), wires=wires, resume=True)
    same_bits(resumed.run(), undisturbed)
    assert resumed.course.progress.rows[-1]["round"] == 6


def until(so, seconds=120):
    """Wait until it is so; nothing but the other threads' own pace decides when."""
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.001)


def test_a_lost_site_is_left_out_once_and_comes_back_with_its_state(tmp_path, monkeypatch):
    monkeypatch.setattr(sites, "PAUSE_SECONDS", 0.01)
    chosen = settings(run={"rounds": 8}, federation={"min_sites": 2})
    conductor, wires = federation(tmp_path, chosen)
    lyon, there, letters = wires["lyon"], conductor.sites, []

    def at_lyon(verb, facts):
        if verb == "letter":
            letters.append(json.loads(facts))
            lyon.cut = letters[-1]["round"] == 2

    def at_berlin(verb, facts):
        round = json.loads(facts).get("round")
        if verb == "letter" and round == 4:
            lyon.restart()  # a new process, which has nothing but the files of the old one
            lyon.cut = False
            # Once nobody asks it, the next round does, and this time there is an answer.
            until(lambda: "lyon" not in there._asked)
        elif verb == "letter" and round == 6:
            until(lambda: "lyon" in there._back or "lyon" not in there.lost)

    lyon.before, wires["berlin"].before = at_lyon, at_berlin
    result = conductor.run()
    assert result.final["sites"] == 3
    assert any("lyon is left out" in note for note in result.about["notes"])
    assert "lyon is back" in result.about["notes"]
    rounds = [letter["round"] for letter in letters]
    assert rounds[:2] == [1, 2] and min(rounds[2:]) > 3  # it cost one timeout, and was spared then
    assert letters[2]["after"] == [1, 1]  # it goes on from what the hub last heard of it


def test_a_reply_that_was_lost_on_the_way_leaves_no_trace(tmp_path, undisturbed):
    """The site has moved on, the hub has not heard of it: the round is played again."""
    conductor, wires = federation(tmp_path, settings())
    lost = []

    def lose(verb, facts):
        if verb == "letter" and json.loads(facts)["round"] == 3 and not lost:
            lost.append(1)
            raise SiteError("TimeoutError", "the reply was lost")

    wires["lyon"].after = lose
    same_bits(conductor.run(), undisturbed)
    assert lost and any("paused" in note for note in conductor.notes)


def test_with_too_few_sites_the_run_pauses_and_then_goes_on(tmp_path, undisturbed):
    conductor, wires = federation(tmp_path, settings(federation={"min_sites": 3}))
    seen = []

    def cut(verb, facts):
        if verb == "letter" and json.loads(facts)["round"] == 4 and not seen:
            wires["torino"].cut = True

    def mend(verb, facts):
        if verb == "ping":
            seen.append(conductor.status()["waiting"])
            wires["torino"].cut = len(seen) < 2

    wires["berlin"].before = cut
    wires["torino"].before = mend
    same_bits(conductor.run(), undisturbed)
    assert True in seen  # who asked was told that the run was waiting


def test_a_site_without_its_files_is_found_out(tmp_path):
    conductor, wires = federation(tmp_path, settings(federation={"min_sites": 2}))

    def forget(verb, facts):
        if verb == "letter" and json.loads(facts)["round"] == 3:
            wires["lyon"].service.site.states.clear()

    wires["lyon"].before = forget
    result = conductor.run()
    assert any("lyon" in n and "is not here" in n for n in result.about["notes"])


def test_a_site_without_its_files_may_start_afresh(tmp_path):
    chosen = settings(federation={"fresh_if_stale": True})
    conductor, wires = federation(tmp_path, chosen)

    def forget(verb, facts):
        letter = json.loads(facts)
        if verb == "letter" and letter["round"] == 3 and letter["after"]:
            wires["lyon"].service.site.states.clear()

    wires["lyon"].before = forget
    result = conductor.run()
    assert "lyon starts afresh: its state was lost" in result.about["notes"]
    assert not any("left out" in note for note in result.about["notes"])


REFUSALS = {
    "method": ({"methods": ["fedavg"]}, {}, "allows the methods fedavg; the job wants 'scaffold'"),
    "problem": ({"problems": []}, {}, "allows the problems none; the job wants 'logistic'"),
    "column": (
        {"features": ["x0"]},
        {},
        "this site's table has columns that its policy does not allow",
    ),
    "few": ({"min_sites": 4}, {}, "at least 4 sites are asked; here are 3"),
}


@pytest.mark.parametrize("policy,changes,complaint", REFUSALS.values(), ids=REFUSALS)
def test_a_site_refuses_what_its_owner_has_not_allowed(policy, changes, complaint, tmp_path):
    conductor, _ = federation(tmp_path, settings(**changes), **policy)
    refused(conductor, complaint)


def test_a_site_that_says_no_is_neither_waited_for_nor_asked_again(tmp_path):
    chosen = settings(federation={"min_sites": 2})
    conductor, wires = federation(tmp_path, chosen)
    (wires["lyon"].kit / "policy.toml").write_text('methods = ["fedavg"]\nproblems = ["logistic"]')
    wires["lyon"].restart()
    asked = []
    wires["lyon"].before = lambda verb, facts: asked.append(verb)
    result = conductor.run()
    assert result.client_names == ("berlin", "torino") and asked == ["hello"]
    assert conductor.status()["lost"] == {}
    assert any("lyon does not take part" in note for note in result.about["notes"])


@pytest.mark.parametrize("changes", [{"run": "../elsewhere"}, {"run": "/tmp/x"}, {"run": ".."}])
def test_a_run_cannot_name_a_folder(changes, tmp_path):
    conductor, _ = federation(tmp_path, settings())
    conductor.job = conductor.job._replace(**changes)
    with pytest.raises(FederationError, match="must be one plain word"):
        conductor.run()


def test_shares_of_test_rows_are_for_raw_tables():
    with pytest.raises(SettingsError, match="test_fraction: is for raw tables"):
        job_of(settings(data={"test_fraction": 0.2}), "a-run")


def test_a_job_cannot_name_a_file(tmp_path):
    conductor, _ = federation(tmp_path, settings())
    data = {**conductor.job.tables["data"], "test": "/etc/hostname"}
    conductor.job = conductor.job._replace(tables={**conductor.job.tables, "data": data})
    with pytest.raises(FederationError, match=r"\[data\] of a job must not say"):
        conductor.run()


LETTER = {"method": "train", "round": 1, "exchange": 1, "cohort": 3, "after": None}


@pytest.mark.parametrize(
    ("verb", "facts"),
    [("meet", {}), ("begin", {"names": NAMES, "id": 0}), ("letter", LETTER), ("measure", {})],
)
def test_verbs_have_an_order(verb, facts, tmp_path):
    from fedloom.errors import RefusedError
    from fedloom.federation.site.service import SiteService

    (kit, *_) = policies(tmp_path, clients())
    with pytest.raises(RefusedError, match="first"):
        SiteService(kit).call(verb, json.dumps(facts), b"")


def test_a_model_that_could_not_be_kept_is_told(tmp_path):
    policy = {"methods": ["quped"], "problems": ["personal"]}
    conductor, wires = federation(tmp_path, settings_for("quped", run={"rounds": 1}), **policy)

    def fail(verb, facts):
        if verb == "keep":
            raise SiteError("OSError", "no space left")

    wires["lyon"].before = fail
    notes = conductor.run().about["notes"]
    assert "lyon could not keep its own model: no space left" in notes


def test_columns_that_are_allowed_suffice(tmp_path):
    chosen = settings(data={"features": ["x0", "x2"]}, run={"rounds": 1})
    conductor, _ = federation(tmp_path, chosen, features=["x0", "x2"])
    assert conductor.run().model.shape == (2,)


def test_sites_with_other_columns_are_named(tmp_path):
    held = clients()
    conductor, _ = federation(tmp_path, settings(), held=held)
    import polars as pl

    file = tmp_path / "rows" / "lyon.parquet"
    pl.read_parquet(file).rename({"x1": "weight"}).write_parquet(file)
    refused(conductor, "lyon does not take part: this site's table has columns that its policy")


def test_clipping_and_noise_stay_at_the_site(tmp_path):
    algorithm = {"key": "fedavg", "lr": 0.5, "local_steps": 5}
    chosen = settings(algorithm=algorithm, run={"rounds": 1})
    clipped, _ = federation(tmp_path / "clipped", chosen, clip=1e-3)
    assert 0 < np.linalg.norm(clipped.run().model) <= 1e-3 * (1 + 1e-6)
    noisy = [
        federation(tmp_path / name, chosen, clip=1e-3, noise=1.0)[0].run().model
        for name in ("one", "two")
    ]
    assert not np.array_equal(*noisy)  # the seed of the run does not give the noise away


def test_a_bad_reply_costs_that_reply_only(tmp_path):
    conductor, wires = federation(tmp_path, settings(federation={"min_sites": 2}))
    service = wires["lyon"].service
    original = service.call

    def damaged(verb, facts, body):
        answer, data = original(verb, facts, body)
        if verb == "letter" and json.loads(facts)["round"] == 2:
            data = data[:-4] + b"\x00\x00\xc0\x7f"  # a NaN
        return answer, data

    service.call = damaged
    result = conductor.run()
    assert result.final["sites"] == 3 and np.isfinite(result.model).all()
    (note,) = [note for note in result.about["notes"] if "refused" in note]
    assert note.startswith("a reply of lyon is refused") and "finite" in note


def test_an_unknown_verb_is_refused(tmp_path):
    (kit, *_) = policies(tmp_path, clients())
    from fedloom.errors import RefusedError
    from fedloom.federation.site.service import SiteService

    with pytest.raises(RefusedError, match="got 'run_code'"):
        SiteService(kit).call("run_code", "{}", b"")


def test_the_settings_of_the_algorithm_travel():
    assert settings().tables["algorithm"] == ALGORITHM


def test_answers_are_in_the_order_of_the_questions_whoever_is_away():
    def silent(*question):
        raise SiteError("TimeoutError", "no answer")

    calls = {name: silent if name in "ab" else lambda *question: ("{}", b"") for name in "abcd"}
    asked = sites.Sites(calls, 1.0, 1)
    for _ in range(2):  # in the second one they are known to be away, and not asked
        answers = asked.ask_each({name: ("meet", {}, b"") for name in "abcd"})
        assert list(answers) == list("abcd")
        assert [isinstance(answer, SiteError) for answer in answers.values()] == [True] * 2 + [
            False
        ] * 2
    asked.close()


def test_a_site_that_comes_back_with_junk_costs_that_site_only(monkeypatch):
    monkeypatch.setattr(sites, "PAUSE_SECONDS", 0.01)
    calls = {
        "berlin": lambda *question: ("{}", b""),
        "lyon": lambda verb, *rest: ("{}", b"") if verb == "ping" else 3,
    }
    asked = sites.Sites(calls, 1.0, 1)
    asked.lost["lyon"] = 0.0
    told = SimpleNamespace(
        introduction=lambda: ({}, b""), roster=SimpleNamespace(names=("berlin", "lyon"))
    )
    asked.greet = Assembly(job_of(settings(), "a-run"), told, asked, print)._greet
    for _ in range(2):  # in the first one it is found to be there again
        asked.ask_each({"berlin": ("meet", {}, b"")})
        until(lambda: "lyon" in asked._back or "lyon" in asked.refused)
    assert asked.live == ["berlin"] and not asked.lost
    assert "something else than a text and bytes" in asked.refused["lyon"]
    asked.close()
