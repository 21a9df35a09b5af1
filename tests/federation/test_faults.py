"""Harm done to a real deployment at random moments: nothing is lost, and the end is the same."""

import random
import signal
import time

import numpy as np
import pytest

from federation.cable import between
from federation.deployment import Follower, deployed, first_process, job_process, restart
from federation.harness import NAMES, federation, same_to_rounding, settings

pytest.importorskip("nvflare", reason="the extra `federate` is not installed")
pytestmark = [
    pytest.mark.deployment,
    # FLARE leaves sockets open where the other end was killed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROUNDS = 150
MOMENTS = random.Random(20261115).sample(range(5, 100), 3)
CHOSEN = settings(
    run={"rounds": ROUNDS, "eval_every": 50},
    federation={"sites": list(NAMES), "min_sites": 3, "timeout": 8},
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("kits")) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    conductor, _ = federation(tmp_path_factory.mktemp("undisturbed"), CHOSEN)
    return conductor.run()


def kill_job(made):
    job_process(made.sites[1]).kill()


def kill_site(made):
    site = made.sites[1]
    job, first = job_process(site), first_process(site)
    first.kill()
    job.kill()
    time.sleep(3)
    restart(site)


def kill_server(made):
    job, first = job_process(made.server), first_process(made.server)
    first.kill()
    job.kill()
    time.sleep(3)
    restart(made.server)


def pause_site(made):
    site = made.sites[1]
    processes = [first_process(site), job_process(site)]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(12)  # longer than the timeout
    for process in processes:
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("harm", [kill_job, kill_site, kill_server, pause_site])
def test_the_run_ends_as_if_nothing_had_happened(harm, moment, made, undisturbed, tmp_path):
    follower = Follower(made, CHOSEN, tmp_path / "result")
    follower.await_round(moment)
    harm(made)
    result = follower.join()
    print(harm.__name__, moment, follower.notes)
    assert result.final["round"] == ROUNDS
    np.testing.assert_array_equal(result.model, undisturbed.model)
    assert [row["round"] for row in result.rows] == [row["round"] for row in undisturbed.rows]


def test_a_person_resumes_after_the_server_and_the_follower_died(made, undisturbed, tmp_path):
    from fedloom.federation.people import submission

    follower = Follower(made, CHOSEN, tmp_path / "first")
    follower.await_round(MOMENTS[0])
    kill_server(made)
    resumed = submission.follow(made.lead, CHOSEN, tmp_path / "second", resume=True)
    np.testing.assert_array_equal(resumed.model, undisturbed.model)
    follower.join()


@pytest.mark.parametrize("key", ["fedavg", "decoupled_prox", "drfa", "ffmdr", "quped"])
def test_methods_of_every_horizontal_family_give_the_simulators_trajectory(key, made, tmp_path):
    import fedloom as fl
    from federation.harness import clients, settings_for
    from fedloom.federation.people import submission

    chosen = settings_for(key, run={"rounds": 10, "eval_every": 5}, federation={"sites": NAMES})
    result = submission.follow(made.lead, chosen, tmp_path / "result")
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    same_to_rounding(result.model, simulated.model)


def test_a_network_that_is_cut_and_back_costs_nothing_but_time(undisturbed, tmp_path):
    cables = []
    with deployed(
        tmp_path / "kits", before=lambda made: cables.append(between(made.server, made.sites[1]))
    ) as made:
        (cable,) = cables
        follower = Follower(made, CHOSEN, tmp_path / "result")
        follower.await_round(MOMENTS[0])
        cable.cut()
        time.sleep(15)  # longer than the timeout
        cable.mend()
        result = follower.join()
    cable.close()
    assert any("paused" in note for note in follower.notes)
    np.testing.assert_array_equal(result.model, undisturbed.model)


def test_parties_with_columns_join_in_private_and_give_the_simulators_trajectory(tmp_path):
    import fedloom as fl
    from federation import parties
    from fedloom.federation.people import trial

    pytest.importorskip("private_set_intersection", reason="the psi extra is not installed")
    chosen = parties.settings(run={"rounds": 300, "eval_every": 100})
    files = parties.write_files(tmp_path / "files")
    held = parties.together(files, parties.settings(data={"test_fraction": None}))
    with deployed(tmp_path / "kits", methods=["egvfl"], held=held) as made:
        result = fl.federate(
            chosen.algorithm,
            chosen.problem,
            kit=made.lead.path,
            label=trial.LABEL,
            data={"id": trial.ID, "join": "private", "standardise": False},
            out=tmp_path / "result",
            sites=parties.NAMES,
            rounds=300,
            eval_every=100,
            metrics=chosen.run.metrics,
        )
    simulated = fl.simulate(chosen.algorithm, chosen.problem, held, **chosen.run.options())
    np.testing.assert_allclose(result.state.hub.slack, simulated.state.hub.slack, atol=1e-6)
    assert result.final["bytes_up"] == simulated.final["bytes_up"]
    assert result.final["loss"] == pytest.approx(simulated.final["loss"], rel=1e-5)
    for kit in made.sites:
        (kept,) = (kit.path / "shares").rglob("share.safetensors")
        share = fl.exchange.wire.read(kept.read_bytes())["value"]
        np.testing.assert_allclose(share, simulated.model[kit.name], rtol=1e-5, atol=1e-6)


def test_a_newcomer_tries_parties_on_one_machine_and_gets_a_page(tmp_path, capsys, monkeypatch):
    from fedloom.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "parties.toml").write_text("""
[data]
name = "breast_cancer"
[partition]
scheme = "features"
parties = 3
standardise = true
test_fraction = 0.2
[problem]
kind = "vertical"
loss = "logistic"
l2 = 1.0
[algorithm]
key = "egvfl"
beta_trick = true
[run]
rounds = 60
""")
    assert main(["try-federation", "parties.toml", "--out", "mine"]) == 0  # a relative folder
    assert "569 people known to all" in capsys.readouterr().err
    page = (tmp_path / "mine" / "result" / "report.html").read_text()
    assert "fedloom submit mine/result/settings.toml --kit KIT" in page and "569 people" in page
