"""What is public is there, and what settings can name can be had in Python too."""

import fedloom as fl
from fedloom.experiments import registries


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
