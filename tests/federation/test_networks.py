"""Networks from PyTorch over a network: they travel as data, as far as owners allow."""

from pathlib import Path

import pytest

import fedloom as fl
from federation.harness import clients, federation, refused, same_to_rounding, settings
from fedloom.errors import RefusedError
from fedloom.experiments.locations import whatever_is_named
from fedloom.federation.job import Job, fingerprint, job_of

FILE = Path(__file__).parents[1] / "graphs" / "table.safetensors"
ALLOWED = {"problems": ["supervised"], "network_mb": 1}


@pytest.fixture(scope="module")
def chosen():
    model = {"kind": "graph", "file": str(FILE)}
    return settings(problem={"kind": "supervised", "model": model, "l2": 0.1})


def test_sites_train_it_and_end_where_the_simulator_ends(chosen, tmp_path):
    conductor, _ = federation(tmp_path, chosen, **ALLOWED)
    result = conductor.run()
    simulated = fl.simulate(chosen.algorithm, chosen.problem, clients(), **chosen.run.options())
    assert set(result.model) == {"2.weight", "2.bias"}  # what is frozen is not in a round
    same_to_rounding(result.model, simulated.model)  # with the same dropout
    assert result.final["bytes_up"] == simulated.final["bytes_up"]


def test_a_job_carries_the_network_and_names_no_folder(chosen):
    job = Job.from_text(job_of(chosen, "run").text())
    assert str(FILE.parent) not in job.text()
    network = job.settings(whatever_is_named).problem.model
    assert network == chosen.problem.model and network.file == FILE.name
    assert job_of(chosen, "run").text() == job_of(chosen, "run").text()
    assert fingerprint(chosen) == fingerprint(chosen)


def test_a_site_that_allows_no_networks_refuses_it(chosen, tmp_path):
    conductor, _ = federation(tmp_path, chosen, problems=["supervised"])
    refused(conductor, "allows networks of up to 0 MB")


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "graph", "file": str(FILE)},
        {"kind": "graph", "file": "../net.safetensors", "data": "AAAA"},
        {"kind": "graph", "file": "/etc/passwd"},
    ],
)
def test_no_end_opens_a_file_because_a_job_names_it(chosen, table):
    job = job_of(chosen, "run")
    job.tables["problem"]["model"] = table
    with pytest.raises(RefusedError, match="must come with its data"):
        job.settings(whatever_is_named)


def test_forged_data_are_refused(chosen):
    job = job_of(chosen, "run")
    for data in ("%%%", "AAAA", job.tables["problem"]["model"]["data"][:-40]):
        job.tables["problem"]["model"]["data"] = data
        with pytest.raises(fl.FedloomError, match=r"table\.safetensors"):
            job.settings(whatever_is_named)
