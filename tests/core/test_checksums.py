"""Files with a checksum: every byte counts, other tools can read them, and nobody else may."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.checksums import BLANK, read_json, seal, unseal, write_json
from fedloom.errors import DataError, MissingDataError
from fedloom.exchange import wire
from fedloom.exchange.site import StateFolder
from fedloom.federation.policy_file import set_data
from fedloom.federation.server import course as server
from fedloom.files import make_private, write_file, write_folder, write_text
from fedloom.measuring import checkpoint

FACTS = {"round": 3, "names": ["a", "ü"], "loss": 0.1}
ARRAYS = {"w": np.arange(5.0), "deep": {"b": np.ones((2, 3), np.float32)}}


def flipped(data):
    """The content with one bit of each byte turned."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


def test_every_byte_of_a_json_file_counts(tmp_path):
    file = tmp_path / "facts.json"
    write_json(file, FACTS)
    assert read_json(file) == FACTS
    plain = json.loads(file.read_text())
    assert plain.pop("checksum").startswith("sha256:") and plain.pop("file") == "facts.json"
    assert plain == FACTS
    for changed in flipped(file.read_bytes()):
        file.write_bytes(changed)
        with pytest.raises(DataError, match=r"facts\.json"):
            read_json(file)


def test_every_byte_of_an_array_file_counts(tmp_path):
    file = tmp_path / "arrays.safetensors"
    wire.write_file(file, ARRAYS, FACTS)
    arrays, facts = wire.read_file(file)
    assert facts == FACTS
    np.testing.assert_array_equal(arrays["deep/b"], ARRAYS["deep"]["b"])
    assert load_file(file).keys() == {"w", "deep/b"}  # for other tools it is plain safetensors
    for changed in flipped(file.read_bytes()):
        file.write_bytes(changed)
        with pytest.raises(DataError, match=r"arrays\.safetensors"):
            wire.read_file(file)


def test_the_same_content_is_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        wire.write_file(tmp_path / name, ARRAYS, FACTS)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_carries_no_checksum_is_refused_with_advice(tmp_path):
    file = tmp_path / "old.json"
    file.write_text(json.dumps(FACTS))
    with pytest.raises(DataError, match=r"old\.json: carries no checksum.*make it anew"):
        read_json(file)
    with pytest.raises(MissingDataError, match=r"none\.json: there is no such file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot be read"):
        read_json(tmp_path)


def test_a_file_under_another_ones_name_is_refused(tmp_path):
    write_json(tmp_path / "one.json", FACTS)
    (tmp_path / "one.json").rename(tmp_path / "two.json")
    with pytest.raises(DataError, match=r"two\.json: holds what belongs into one\.json"):
        read_json(tmp_path / "two.json")


@pytest.mark.parametrize("content", ["[]", '"text"', "{", '{"checksum": 1}', "[" * 100_000])
def test_content_with_a_right_checksum_may_still_be_useless(content, tmp_path):
    (tmp_path / "odd.json").write_bytes(seal(f"{content} {BLANK}".encode()))
    assert unseal(tmp_path / "odd.json")
    with pytest.raises(DataError, match=r"odd\.json: its content cannot be used"):
        read_json(tmp_path / "odd.json")


@pytest.fixture(scope="module")
def result():
    clients = fl.data.partition(fl.data.load("iris"), "iid", clients=2)
    method, problem = fl.algorithms.FedAvg(lr=0.1), fl.problems.Multinomial()
    return fl.simulate(method, problem, clients, rounds=2, progress=False)


def test_a_result_is_not_mixed_from_two_runs(result, tmp_path):
    result.save(tmp_path / "one")
    result.save(tmp_path / "two")
    other = wire.encode({"w": np.zeros(3)})
    (tmp_path / "two" / "model.safetensors").write_bytes(other)
    fl.load(tmp_path / "one")
    with pytest.raises(DataError, match=r"model\.safetensors: is not the file that belongs here"):
        fl.load(tmp_path / "two")
    (tmp_path / "one" / "holdings.parquet").unlink()
    with pytest.raises(MissingDataError, match=r"holdings\.parquet"):
        fl.load(tmp_path / "one")


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    server.save_checkpoint(server.Checkpoint(round=3), tmp_path / "one" / "checkpoint.safetensors")
    assert server.load_checkpoint(tmp_path / "one" / "checkpoint.safetensors").round == 3
    (tmp_path / "one").rename(tmp_path / "two")
    with pytest.raises(DataError, match="is the checkpoint of 'one', another run"):
        server.load_checkpoint(tmp_path / "two" / "checkpoint.safetensors")
    assert server.load_checkpoint(tmp_path / "one" / "checkpoint.safetensors") is None


def test_a_state_under_another_ones_name_is_lost_and_the_log_says_so(tmp_path, caplog):
    store = StateFolder(tmp_path)
    store.put((1, 0), ARRAYS)
    store.put((2, 0), ARRAYS)
    (tmp_path / "1-0.safetensors").rename(tmp_path / "3-0.safetensors")
    with caplog.at_level("WARNING", "fedloom"):
        assert store.read(ARRAYS).keys() == {(2, 0)}
    assert "3-0.safetensors: is the state after [1, 0]" in caplog.text


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(f.stat().st_mode) for f in folder.rglob("*") if f.is_file()}


@pytest.fixture(params=[0, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_states_checkpoints_and_policies_are_private_whatever_the_umask(umask, result, tmp_path):
    StateFolder(tmp_path / "states").put((1, 0), ARRAYS)
    server.save_checkpoint(server.Checkpoint(), tmp_path / "run" / "checkpoint.safetensors")
    checkpoint.write(tmp_path / "checkpoint.safetensors", result)
    set_data(tmp_path, tmp_path / "rows.csv")
    write_json(tmp_path / "people.json", FACTS)
    write_text(tmp_path / "policy.toml", "\n")  # also where it replaces another
    assert modes(tmp_path) == {0o600}


def test_results_are_shared_as_far_as_the_umask_lets_them(umask, result, tmp_path):
    result.save(tmp_path / "kept")
    assert modes(tmp_path) == {0o644 & ~umask}
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o755 & ~umask


def test_a_folder_that_others_made_becomes_private(umask, tmp_path):
    kit = tmp_path / "kit"
    (kit / "startup").mkdir(parents=True)
    (kit / "startup" / "client.key").write_text("secret")
    (kit / "startup" / "start.sh").write_text("#!/bin/sh\n")
    (kit / "startup" / "start.sh").chmod(0o755)
    make_private(kit)
    assert (
        stat.S_IMODE(kit.stat().st_mode) == stat.S_IMODE((kit / "startup").stat().st_mode) == 0o700
    )
    assert stat.S_IMODE((kit / "startup" / "client.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((kit / "startup" / "start.sh").stat().st_mode) == 0o700


def test_what_fails_leaves_nothing_behind(tmp_path):
    def fail(path):
        raise RuntimeError("no")

    write_text(tmp_path / "kept", "before")
    for write in (write_file, write_folder):
        with pytest.raises(RuntimeError):
            write(tmp_path / "kept", fail)
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "before"
