"""An import under a version that is known to be wrong says so."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom import versions

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_a_wrong_version_warns_with_the_reason(monkeypatch):
    wrong = versions.WrongVersion("numpy", np.__version__, "it adds wrongly", "another one")
    monkeypatch.setattr(versions, "KNOWN_WRONG", (wrong,))
    with pytest.warns(RuntimeWarning, match=r"numpy .* wrong numbers: it adds wrongly.*another"):
        versions.warn_of_wrong_versions()


def test_the_warning_comes_with_the_import():
    source = (
        "import importlib.metadata as m; right = m.version\n"
        "m.version = lambda name: '0.10.2' if name == 'jaxlib' else right(name)\n"
        "import fedloom"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0
    assert "RuntimeWarning: jaxlib 0.10.2 gives wrong numbers" in done.stderr


def test_nothing_installed_here_is_known_to_be_wrong():
    assert versions.wrong_versions() == []


def test_a_package_that_is_not_installed_is_not_wrong():
    assert versions.installed("no-such-package-anywhere") is None


def test_the_dependencies_exclude_what_is_known_to_be_wrong():
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    jax_needed = next(line for line in dependencies if line.startswith("jax"))
    for wrong in versions.KNOWN_WRONG:
        if wrong.package == "jaxlib":  # of the same number as the jax that needs it
            assert f"!={wrong.version}" in jax_needed


@pytest.mark.parametrize(("dtype", "rows"), [("float64", 16_385), ("float32", 32_769)])
def test_the_program_that_jaxlib_0_10_2_compiles_wrongly_is_right_here(dtype, rows, double):
    i = jnp.arange(rows, dtype=dtype)
    x = jnp.stack((i, jnp.zeros_like(i), jnp.zeros_like(i)), axis=1)
    identity = jnp.eye(3, dtype=dtype)
    squares = jax.jit(jax.vmap(lambda row: jnp.sum((identity @ row) ** 2)))(x)
    assert float(squares[-1]) == float(rows - 1) ** 2


_MAPPED_SUMS = """
import fedloom, jax, jax.numpy as jnp, numpy as np
rows = np.zeros((40_000, 3), np.float32)
rows[:, 0] = np.arange(40_000)
sums = jax.jit(jax.vmap(lambda row: jnp.sum(jnp.eye(3, dtype=row.dtype) @ row)))(rows)
np.testing.assert_array_equal(sums, rows[:, 0])
"""


def test_sums_that_jaxlib_0_10_fuses_wrongly_are_right_once_fedloom_is_imported():
    subprocess.run([sys.executable, "-c", _MAPPED_SUMS], check=True, timeout=300)


def test_who_computes_before_the_import_is_warned():
    source = (
        "import importlib.metadata as m; right = m.version\n"
        "m.version = lambda name: '0.10.1' if name == 'jaxlib' else right(name)\n"
        "import jax.numpy; jax.numpy.zeros(1); import fedloom"
    )
    clean = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning: JAX has computed before fedloom was imported" in done.stderr


def test_flags_of_the_user_stay(monkeypatch):
    monkeypatch.setattr(versions, "_has_computed", lambda: False)
    monkeypatch.setattr(versions, "installed", lambda package: "0.10.1")
    monkeypatch.setenv("XLA_FLAGS", "--other")
    versions.turn_off_wrong_fusion()
    versions.turn_off_wrong_fusion()
    assert os.environ["XLA_FLAGS"] == "--other --xla_cpu_experimental_ynn_fusion_type="
    monkeypatch.setattr(versions, "installed", lambda package: "0.12.0")
    monkeypatch.delenv("XLA_FLAGS")
    versions.turn_off_wrong_fusion()
    assert "XLA_FLAGS" not in os.environ


_KEPT = """
import fedloom as fl
clients = fl.data.from_arrays([([[0.0], [1.0]] * 4, [0, 1] * 4)] * 3)
fl.simulate(fl.algorithms.FedAvg(lr=0.1), fl.problems.Logistic(), clients, rounds=2, lanes=2)
"""


def test_programs_that_come_from_the_cache_raise_no_false_alarm(tmp_path):
    """On a processor with AVX-512, XLA of JAX 0.10 says that they may crash; they do not."""
    clean = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _KEPT],
            capture_output=True,
            text=True,
            env={**clean, "FEDLOOM_CACHE": str(tmp_path)},
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
    assert any((tmp_path / "programs").iterdir())


def test_a_log_level_of_the_user_stays(monkeypatch):
    monkeypatch.setattr("fedloom.versions.installed", lambda package: "0.10.1")
    for told, expected in (("0", "0"), (None, "3")):
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
        if told:
            monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", told)
        versions.turn_off_false_alarms()
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == expected
    monkeypatch.setattr("fedloom.versions.installed", lambda package: "0.11.1")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    versions.turn_off_false_alarms()
    assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ
