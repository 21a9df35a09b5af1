"""What is public is there, and what settings can name can be had in Python too."""

import importlib
from pathlib import Path

import pytest

import fedloom as fl
from fedloom.experiments import registries

SOURCES = Path(fl.__file__).parents[1]


def test_every_public_name_is_there():
    for name in fl.__all__:
        assert getattr(fl, name) is not None


def test_compressors_are_public():
    for kind in registries.COMPRESSORS.values():
        assert getattr(fl.compressors, kind.__name__) is kind
    packed = fl.algorithms.Compressed(
        fl.algorithms.FedAvg(lr=0.1), fl.compressors.TopK(per_cent=50)
    )
    assert packed.compressor.per_cent == 50


def test_aggregators_are_public():
    for kind in registries.AGGREGATORS.values():
        assert getattr(fl.aggregators, kind.__name__) is kind


def modules_with_public_names():
    """Those that use `lazy.public`."""
    for source in sorted((SOURCES / "fedloom").rglob("*.py")):
        if "__getattr__, __dir__ = public(__name__)" in source.read_text():
            parts = source.relative_to(SOURCES).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", [*modules_with_public_names()])
def test_a_module_lists_its_public_names_only_and_names_the_one_that_is_meant(name):
    module = importlib.import_module(name)
    assert {known for known in dir(module) if not known.startswith("__")} == set(module.__all__)
    meant = max(module.__all__, key=len)
    with pytest.raises(AttributeError, match=f"Did you mean {meant!r}"):
        getattr(module, meant + "x")
