"""Calls that no honest server makes: other types, other orders, other numbers than are due."""

import json

import numpy as np
import polars as pl
import pytest

from federation import harness, parties, raw_tables
from federation.harness import federation, settings
from federation.hospitals import chosen as encoded
from federation.hospitals import hospitals, rare
from fedloom.errors import RefusedError, WireError
from fedloom.federation.people import trial
from fedloom.federation.site.answers import Answers
from fedloom.federation.site.protection import protect
from fedloom.federation.site.service import SiteService

FEDAVG = {"key": "fedavg", "lr": 0.5, "local_steps": 2}
RUN = {"rounds": 2, "eval_every": 1}
SECURE = {"secure_aggregation": True}


def overheard(folder, **changes):
    """A run that has ended, and all calls that berlin has answered in it."""
    policy = changes.pop("policy", {})
    conductor, wires = federation(folder, settings(algorithm=FEDAVG, run=RUN, **changes), **policy)
    service, calls = wires["berlin"].service, []
    answer = service.call
    service.call = lambda *call: calls.append(call) or answer(*call)
    conductor.run()
    service.call = answer
    return service, calls


def forged(call, **changes):
    verb, facts, body = call
    return verb, json.dumps({**json.loads(facts), **changes}), body


def first(calls, verb):
    return next(call for call in calls if call[0] == verb)


def test_a_place_that_was_refused_gives_no_plain_answers(tmp_path):
    _, calls = overheard(tmp_path, federation=SECURE, policy={"secure_aggregation": True})
    service = SiteService(tmp_path / "berlin")
    service.call(*first(calls, "hello"))
    with pytest.raises(RefusedError, match="told another place or name"):
        service.call(*forged(first(calls, "begin"), names=["x", "y", "z"]))
    for call in (forged(first(calls, "letter"), phase=""), ("measure", '{"round": 0}', b"")):
        with pytest.raises(RefusedError, match="has no place in the run yet"):
            service.call(*call)
    with pytest.raises(RefusedError, match="begin says otherwise now"):
        service.call(*first(calls, "begin"))  # nor is another place taken


WRONG = [
    {"exchange": True},
    {"round": True},
    {"round": 1.0},
    {"round": -1},
    {"round": 2**32 + 1},
    {"exchange": 0},
    {"exchange": "1"},
    {"exchange": "/../../escaped"},
    {"cohort": float("nan")},
    {"cohort": True},
    {"after": [True, 1]},
    {"after": [1]},
    {"after": "no"},
    {"method": 3},
    {"phase": None},
    {"more": 1},
]


@pytest.mark.parametrize("policy", [{}, {"clip": 0.1, "noise": 1.0}], ids=["plain", "noisy"])
def test_a_letter_is_read_strictly(policy, tmp_path):
    service, calls = overheard(tmp_path, policy=policy)
    letter = [call for call in calls if call[0] == "letter"][-1]
    for changes in WRONG:
        with pytest.raises(WireError, match="a letter was due, and something else came"):
            service.call(*forged(letter, **changes))
    with pytest.raises(RefusedError, match="the run has 2 rounds"):
        service.call(*forged(letter, round=3))
    assert not list(tmp_path.rglob("*escaped*"))


def test_the_same_exchange_by_another_name_opens_no_second_sum(tmp_path):
    service, calls = overheard(tmp_path, federation=SECURE)
    keys = next(c for c in calls if c[0] == "letter" and json.loads(c[1])["phase"] == "keys")
    for alias in ({"exchange": True}, {"round": True}):
        with pytest.raises(WireError, match="a letter was due"):
            service.call(*forged(keys, **alias))


@pytest.mark.parametrize("secret", [False, True])
def test_which_rows_a_batch_has_can_be_a_secret_of_the_site(secret, tmp_path):
    """By the seed a server knows each batch, and from 150 means over them found what rows add."""
    _, calls = overheard(tmp_path, policy={"secret_batches": secret})
    answers = set()
    for _ in range(4):
        service = SiteService(tmp_path / "berlin")
        for verb in ("hello", "begin"):
            service.call(*first(calls, verb))
        answers.add(service.call(*first(calls, "letter"))[1])
    assert (len(answers) > 1) == secret


def test_metrics_are_no_letter_where_sums_are_plain(tmp_path):
    service, calls = overheard(tmp_path, policy={"metric_noise": 0.5})
    letter = first(calls, "letter")
    for exchange in (1, 2, 50):
        with pytest.raises(RefusedError, match="does not ask for 'measure'"):
            service.call(*forged(letter, method="measure", exchange=exchange))


def test_metrics_are_one_exchange_of_a_round_of_secure_sums(tmp_path):
    service, calls = overheard(tmp_path, federation=SECURE)
    letter = first(calls, "letter")
    for round, exchange in ((0, 2), (1, 1), (1, 3)):
        with pytest.raises(RefusedError, match="does not ask for 'measure'"):
            service.call(*forged(letter, method="measure", round=round, exchange=exchange))


@pytest.mark.parametrize("round", [False, True, 0.0])
def test_metrics_of_a_round_are_not_told_twice_under_another_name(round, tmp_path):
    service, calls = overheard(tmp_path)
    with pytest.raises(RefusedError, match="metrics are taken every 1 rounds"):
        service.call(*forged(first(calls, "measure"), round=round))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reply_that_is_not_finite_does_not_leave_unclipped(value):
    reply = {"w": np.array([value, 6e5, 9e5]), "b": np.array([1.0])}
    assert all((part == 0).all() for part in protect(reply, 0.1, None).values())
    noisy = protect(reply, 0.1, 20.0)
    assert all(np.abs(part).max() < 20 for part in noisy.values())


def test_a_number_that_does_not_fit_the_ring_is_not_quoted_and_asked_for_once(tmp_path):
    big = {"key": "fedavg", "lr": 1e15, "local_steps": 1}
    chosen = settings(algorithm=big, run={**RUN, "metrics": []}, federation=SECURE)
    conductor, _ = federation(tmp_path, chosen)
    conductor.run()  # both rounds are lost
    notes = [note for note in conductor.notes if "the sum could not be opened" in note]
    assert len(notes) == 2 and not any("got" in note for note in notes)
    assert not any("drops out" in note for note in conductor.notes)
    assert list((tmp_path / "berlin" / "states").rglob("sum-*"))  # it was noted before


def test_two_jobs_of_one_run_give_one_answer(tmp_path):
    one, other = Answers(tmp_path), Answers(tmp_path)
    given = one.to(1, "exchange 1", b"question", lambda: b"first")
    assert other.to(1, "exchange 1", b"question", lambda: b"second") == given == b"first"


def test_sums_of_a_table_are_of_one_set_of_rows(tmp_path):
    conductor, wires = raw_tables.federation(tmp_path, raw_tables.settings(tmp_path))
    conductor.run()
    for held_out in ({"seed": 1}, {"test_fraction": 0.2}, {"test_fraction": 0.01}):
        other = raw_tables.settings(tmp_path, data=held_out)
        again, _ = raw_tables.federation(tmp_path, other, wires=wires)
        harness.refused(again, "words or sums of other rows of this site's table were told before")
    same, _ = raw_tables.federation(tmp_path, raw_tables.settings(tmp_path), wires=wires)
    assert same.run().status == "done"


def test_words_of_a_table_are_of_one_set_of_rows(tmp_path):
    """Which rows are held out decides which words enough rows hold: that alone tells of rows."""
    conductor, wires = raw_tables.federation(tmp_path, raw_tables.settings(tmp_path))
    verb, facts, body = harness.hello(conductor, "lyon")
    wires["lyon"].service.call(verb, json.dumps(facts), body)
    odd = raw_tables.settings(tmp_path, data={"seed": 1})
    other, _ = raw_tables.federation(tmp_path, odd, wires=wires)
    verb, facts, body = harness.hello(other, "lyon")
    with pytest.raises(RefusedError, match="words or sums of other rows"):
        wires["lyon"].service.call(verb, json.dumps(facts), body)
    with pytest.raises(RefusedError, match="has not been told of a run"):
        wires["lyon"].service.call("meet", "{}", b"")
    usual, _ = raw_tables.federation(tmp_path, raw_tables.settings(tmp_path), wires=wires)
    assert usual.run().status == "done"


def test_a_job_that_a_site_refuses_ties_nobody(tmp_path):
    """Otherwise it could keep all later ones from a table."""
    odd = raw_tables.settings(tmp_path, data={"seed": 1}, run={"metrics": ["auc"]})
    conductor, wires = raw_tables.federation(tmp_path, odd)
    harness.refused(conductor, "lets no scores of rows leave")
    usual, _ = raw_tables.federation(tmp_path, raw_tables.settings(tmp_path), wires=wires)
    assert usual.run().status == "done"


def test_other_parts_of_dates_are_of_the_same_rows(tmp_path):
    days = {"dose": ["year"]}, {"dose": ["year", "month"]}
    wires = None
    for dates in (None, *days):
        chosen = raw_tables.settings(tmp_path, data={} if dates is None else {"dates": dates})
        conductor, wires = raw_tables.federation(tmp_path, chosen, wires=wires)
        if dates is None:
            for name in harness.NAMES:
                file = tmp_path / "tables" / f"{name}.csv"
                table = pl.read_csv(file)
                day = [f"20{20 + i % 3}-0{1 + i % 4}-01" for i in range(table.height)]
                table.with_columns(dose=pl.Series(day)).write_csv(file)
        verb, facts, body = harness.hello(conductor, "lyon")
        assert "proposal" in wires["lyon"].service.call(verb, json.dumps(facts), body)[0]


def test_a_budget_covers_no_sums_of_raw_tables(tmp_path):
    private = [{"kind": "private", "clip": 0.1, "noise": 20.0, "at": "client"}]
    chosen = raw_tables.settings(tmp_path, wrapper=private, run={"metrics": []})
    conductor, _ = raw_tables.federation(tmp_path, chosen, epsilon=5.0, metrics=False)
    harness.refused(conductor, "cannot be combined with clip or epsilon in its policy")


def test_whether_a_word_occurs_cannot_be_asked_by_categories(tmp_path):
    """What one row alone holds neither fails nor shows."""
    told = []
    for i, words in enumerate((["blue", "red"], ["blue", "green", "red"])):
        wanted = encoded({"categories": {"ward": words}})
        complete = lambda t: rare(t).with_columns(age=t["age"])  # noqa: E731
        _, wires = hospitals(tmp_path / str(i), wanted, complete)
        conductor, _ = hospitals(tmp_path / f"{i}b", wanted, complete)
        verb, facts, body = harness.hello(conductor, "lyon")
        told.append(json.loads(wires["lyon"].service.call(verb, json.dumps(facts), body)[0]))
    assert told[0]["counts"] == told[1]["counts"]


def test_nor_by_a_job_to_which_other_words_are_an_error(tmp_path):
    wanted = encoded({"categories": {"ward": ["blue", "red"]}, "others": False})
    complete = lambda t: rare(t).with_columns(age=t["age"])  # noqa: E731
    conductor, wires = hospitals(tmp_path, wanted, complete)
    verb, facts, body = harness.hello(conductor, "lyon")
    told = json.loads(wires["lyon"].service.call(verb, json.dumps(facts), body)[0])
    assert told["features"] == ["age", "ward=blue", "ward=red"]


def test_people_of_a_vertical_run_are_as_many_as_the_owner_wants(tmp_path):
    conductor, _ = parties.federation(tmp_path, parties.settings(), min_rows=60)
    harness.refused(conductor, "wants at least 60 rows to take part")


def test_a_site_makes_no_room_for_rosters_beyond_reason(tmp_path):
    _, calls = overheard(tmp_path)
    begin = first(calls, "begin")
    for changes in (
        {"counts": [[10**8, 1]] * 3},
        {"counts": [[10**15, 1]] * 3},
        {"counts": [[-1, 1]] * 3},
        {"names": ["berlin"] * 3},
        {"names": "abc"},
        {"id": True},
        {"id": 7},
    ):
        service = SiteService(tmp_path / "berlin")
        service.call(*first(calls, "hello"))
        with pytest.raises(WireError, match="a list of sites with their rows was due"):
            service.call(*forged(begin, **changes))


MORE = 10**6  # rows that lyon does not have, by which the sum of replies would be its own
ROSTERS = {
    "a class twice": {"labels": [0, 1, 1], "counts": [[4, 0, 4], [7, MORE, 7], [7, 0, 7]]},
    "a count too many": {"counts": [[4, 4, 0], [7, 7, MORE], [7, 7, 0]]},
    "a count too few": {"counts": [[4, 4], [7], [7, 7]]},
    "a site too many": {"counts": [[4, 4], [7, 7], [7, 7], [MORE, 0]]},
}


@pytest.mark.parametrize("changes", ROSTERS.values(), ids=ROSTERS)
def test_no_roster_has_rows_that_no_site_has_told(changes, tmp_path):
    sized = {"weights": "size"}
    _, calls = overheard(tmp_path, federation=SECURE, problem=sized)
    own = json.loads(first(calls, "begin")[1])["counts"][0]
    counts = [[*own, *changes["counts"][0][2:]], *changes["counts"][1:]]
    if "labels" in changes:
        counts[0] = [own[0], 0, own[1]]
    service = SiteService(tmp_path / "berlin")
    service.call(*first(calls, "hello"))
    with pytest.raises(RefusedError, match="other numbers of rows"):
        service.call(*forged(first(calls, "begin"), **{**changes, "counts": counts}))


def test_nor_where_numbers_are_predicted(tmp_path):
    policy = {"problems": ["least_squares"], "labels": {trial.LABEL: "numbers"}}
    asked = {"kind": "least_squares", "weights": "size"}
    regression = {"data": {"regression": True}, "problem": asked, "federation": SECURE}
    _, calls = overheard(tmp_path, policy=policy, **regression)
    service = SiteService(tmp_path / "berlin")
    service.call(*first(calls, "hello"))
    with pytest.raises(RefusedError, match="other numbers of rows"):
        service.call(*forged(first(calls, "begin"), counts=[[8, 0], [14, MORE], [14, 0]]))


def test_a_desk_is_asked_by_words(tmp_path):
    service, _ = overheard(tmp_path)
    for verb in (["letter"], {}, None, 3):
        with pytest.raises(RefusedError, match="a site answers hello"):
            service.call(verb, "{}", b"")


def test_columns_that_the_job_has_not_named_are_not_named_to_it(tmp_path):
    conductor, _ = hospitals(tmp_path, encoded({"features": []}))
    said = harness.refused(conductor, "has columns that its policy does not allow")
    assert "'name'" not in " ".join(said)


def test_scores_of_a_few_rows_do_not_leave(tmp_path):
    chosen = harness.settings_for("ffmdr", run={"rounds": 1, "metrics": ["auc"]})
    policy = {"methods": ["ffmdr"], "problems": ["auc"], "scores": True, "least_count": 9}
    conductor, wires = federation(tmp_path, chosen, **policy)
    told = []
    answer = wires["berlin"].service.call  # it has eight rows

    def call(verb, facts, body):
        given = answer(verb, facts, body)
        if verb == "measure":
            told.append(json.loads(given[0]))
        return given

    wires["berlin"].service.call = call
    conductor.run()
    assert told and all(facts["scored"] == [0, 0] for facts in told)


def test_words_that_are_not_listed_count_as_none_of_them(tmp_path):
    import fedloom as fl

    path = tmp_path / "t.csv"
    pl.DataFrame({"ward": ["red", "blue", "green"], "y": [0, 1, 0]}).write_csv(path)
    listed = {"ward": ["blue", "red"]}
    with pytest.raises(fl.FedloomError, match="must hold one of its 2 categories"):
        fl.data.load(path, label="y", categories=listed)
    dataset = fl.data.load(path, label="y", categories=listed, others=True)
    np.testing.assert_array_equal(dataset.x, [[0, 1], [1, 0], [0, 0]])
