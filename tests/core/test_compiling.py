"""How programs are compiled on each kind of device."""

import jax
import pytest

import fedloom as fl
from fedloom.errors import SettingsError
from fedloom.experiments.folder import RunFolder
from fedloom.rounds import compiling

EXCLUDED = {"xla_gpu_exclude_nondeterministic_ops": True}
SEQUENTIAL = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}


@pytest.mark.parametrize(
    "backend,how,options",
    [
        ("gpu", {}, EXCLUDED),
        ("gpu", {"small_steps": True}, EXCLUDED),
        ("gpu", {"deterministic": False}, None),
        ("cpu", {}, None),
        ("cpu", {"small_steps": True, "deterministic": False}, SEQUENTIAL),
        ("tpu", {"small_steps": True}, None),
    ],
)
def test_options_of_the_compiler(backend, how, options, monkeypatch):
    given = {}
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "jit", lambda function, **settings: given.update(settings))
    compiling.compiled.__wrapped__(len, "plan", **how)
    expected = {"static_argnames": ("plan",), "donate_argnames": (), "compiler_options": options}
    assert given == expected


def test_the_compiler_of_this_jax_knows_the_option_of_gpus():
    """An unknown option is an error of the compiler, whatever the device."""
    program = jax.jit(lambda x: x + 1, compiler_options=EXCLUDED)
    assert program(1.0) == 2.0


def test_who_compiles_the_same_function_shares_its_programs():
    assert compiling.compiled(len) is compiling.compiled(len)
    assert compiling.compiled(len) is not compiling.compiled(len, small_steps=True)


def test_a_run_says_how_it_was_compiled_and_goes_on_in_the_same_way(tmp_path):
    clients = fl.data.from_arrays([([[0.0], [1.0]], [0, 1])] * 2)
    run = (fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), clients)
    folder = RunFolder(tmp_path / "run")
    first = folder.go_on(*run, rounds=1, deterministic=False)
    assert first.about["deterministic"] is False
    with pytest.raises(SettingsError, match="another deterministic: False"):
        folder.go_on(*run, rounds=2, deterministic=True)
    assert fl.simulate(*run, rounds=1).about["deterministic"] is True
