"""Networks: fedloom's own, any pair of functions (init, apply), or modules of other libraries."""

from typing import TYPE_CHECKING

from fedloom.lazy import public
from fedloom.models.base import Model, Pair
from fedloom.models.graph.from_torch import from_torch
from fedloom.models.graph.graph import Graph
from fedloom.models.graph.to_torch import to_torch
from fedloom.models.low_rank import Lora, lora
from fedloom.models.modules import from_equinox, from_flax
from fedloom.models.networks import CNN, MLP
from fedloom.models.published import CNN1, CNN2, EmbeddingBag, ResNet
from fedloom.models.recurrent import GRU
from fedloom.models.transformer import Transformer

REGISTRY: dict[str, type[Model]] = {  # networks by the keys of settings files and packed models
    "mlp": MLP,
    "cnn": CNN,
    "cnn1": CNN1,
    "cnn2": CNN2,
    "gru": GRU,
    "resnet": ResNet,
    "embedding_bag": EmbeddingBag,
    "graph": Graph,
    "lora": Lora,
    "transformer": Transformer,
}

__all__ = [
    "CNN",
    "CNN1",
    "CNN2",
    "GRU",
    "MLP",
    "REGISTRY",
    "EmbeddingBag",
    "Graph",
    "Lora",
    "Model",
    "Pair",
    "ResNet",
    "Transformer",
    "from_equinox",
    "from_flax",
    "from_torch",
    "lora",
    "to_torch",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
