"""What all tests share."""

import os
from pathlib import Path

import jax
import pytest

# Tests compile thousands of tiny programs; keeping them on disk makes the second run quick.
os.environ.setdefault("FEDLOOM_CACHE", str(Path(__file__).parent / ".cache"))


@pytest.fixture
def double():
    """Double precision."""
    with jax.enable_x64(True):
        yield


def data_folder() -> Path | None:
    """The folder of local copies of public datasets, where there is one."""
    named = os.environ.get("FEDLOOM_DATA")
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(named) if named else beside
    return folder if folder.is_dir() else None
