"""Harm done to a real deployment at random moments: nothing is lost, and the end is the same."""

import random
import signal
import time

import numpy as np
import pytest

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
    from fedloom.engines.flare import watching

    follower = Follower(made, CHOSEN, tmp_path / "first")
    follower.await_round(MOMENTS[0])
    kill_server(made)
    resumed = watching.follow(made.lead, CHOSEN, tmp_path / "second", resume=True)
    np.testing.assert_array_equal(resumed.model, undisturbed.model)
    follower.join()


@pytest.mark.parametrize("key", ["fedavg", "decoupled_prox", "drfa", "ffmdr", "quped"])
def test_methods_of_every_horizontal_family_give_the_simulators_trajectory(key, made, tmp_path):
    import fedloom as fl
    from federation.harness import clients, settings_for
    from fedloom.engines.flare import watching

    chosen = settings_for(key, run={"rounds": 10, "eval_every": 5}, federation={"sites": NAMES})
    result = watching.follow(made.lead, chosen, tmp_path / "result")
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    same_to_rounding(result.model, simulated.model)
