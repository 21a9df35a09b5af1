"""LoRA: matrices that stay as they are, plus a trained change of low rank.

Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen. LoRA: Low-Rank Adaptation of Large Language
Models. ICLR 2022.

    W' = W + (alpha / rank) B A,    B (rows, rank) zero at the start,  A (rank, columns) random

The model that is trained, sent and averaged are the factors, and what else is named to be trained.
"""

import math
import re
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ParameterError
from fedloom.layout import STATISTICS, last_name
from fedloom.models.base import Model
from fedloom.models.graph.graph import Graph
from fedloom.models.graph.program import Ref
from fedloom.parameters import (
    at_least,
    instance_of,
    param,
    parametrised,
    positive,
    unwritten,
)
from fedloom.pytrees import pytree
from fedloom.rows import Drawn, Spec
from fedloom.rules import pattern
from fedloom.types import Array, Held, Tree

_A, _B = ".lora_a", ".lora_b"
_PRODUCTS = ("linear", "addmm", "mm", "bmm", "matmul", "t", "transpose", "permute", "baddbmm")


_pattern = pattern("query|value")


@pytree
class Base:
    """The arrays from which the changes are counted."""

    __parametrised__: ClassVar[bool] = True  # a part of a model whose arrays are leaves
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    arrays: Tree


@parametrised
class Lora(Model):
    """A network whose matrices change by low rank (`fl.models.lora`)."""

    model: Model = param(instance_of(Model), "the network")
    rank: int = param(at_least(1), "rank of the changes", default=4)
    alpha: float = param(positive, "the changes are alpha / rank times B A", default=8.0)
    matrices: str = param(
        _pattern, "names of the matrices that change; empty: all that are used in products",
        default="",
    )  # fmt: skip
    whole: str | None = param(
        _pattern.or_none("nothing else"), "names of arrays that are trained whole, such as a head",
        default=None,
    )  # fmt: skip
    base: Base | None = unwritten("the arrays from which the changes are counted", compare=True)

    def __post_init__(self) -> None:
        if self.base is None and not isinstance(self.model, Graph):
            raise ParameterError(
                f"Lora: the arrays of {self.model!r} are not known. Write fl.models.lora(model, "
                f"arrays=result.model, rank={self.rank}) with a result whose model is to be tuned."
            )
        if not self._chosen():
            raise ParameterError(
                f"Lora: matrices = {self.matrices!r} fits none of {', '.join(self._named())}. "
                f"Leave it out, or name some of them."
            )

    def init(self, key: Array, spec: Spec) -> Tree:
        """Factors whose product is zero, and the arrays that are trained whole."""
        named, chosen = self._named(), self._chosen()
        made: dict[str, Array] = {}
        for place, name in enumerate(chosen):
            rows, columns = named[name].shape
            bound = 1 / math.sqrt(columns)
            own = jax.random.fold_in(key, place)
            shape = (self.rank, columns)
            made[name + _A] = jax.random.uniform(own, shape, spec.dtype, -bound, bound)
            made[name + _B] = jnp.zeros((rows, self.rank), spec.dtype)
        rest = [name for name in named if name not in chosen and self._is_whole(name)]
        return made | {name: jnp.asarray(named[name], spec.dtype) for name in rest}

    def apply(self, arrays: Tree, x: Held) -> Array:
        """The outputs of the changed network."""
        return self.model.apply(self.merged(arrays), x)

    def train_apply(self, arrays: Tree, x: Held, drawn: Drawn) -> Array:
        """The outputs of the changed network in training."""
        return self.model.train_apply(self.merged(arrays), x, drawn)

    @property
    def trains_otherwise(self) -> bool:
        """Whether those of the network do."""
        return self.model.trains_otherwise

    def merged(self, arrays: Tree) -> Tree:
        """The arrays of the network with the changes in them.

        Args:
            arrays: As `init` returns them.
        """
        dtype = jnp.result_type(*arrays.values())

        def changed(path: Any, base: Held) -> Array:
            name, start = _name(path), jnp.asarray(base, dtype)
            if name + _A in arrays:
                scale = jnp.asarray(self.alpha / self.rank, dtype)
                return start + scale * (arrays[name + _B] @ arrays[name + _A])
            return jnp.asarray(arrays.get(name, start))

        return jax.tree_util.tree_map_with_path(changed, self._start())

    def _start(self) -> Tree:
        if self.base is not None:
            return self.base.arrays
        assert isinstance(self.model, Graph)
        return self.model.held.trained

    def _named(self) -> dict[str, Any]:
        leaves = jax.tree_util.tree_leaves_with_path(self._start())
        return {_name(path): leaf for path, leaf in leaves}

    def _chosen(self) -> list[str]:
        """The names of the matrices that change."""
        leaves = jax.tree_util.tree_leaves_with_path(self._start())
        if isinstance(self.model, Graph):
            fitting = _in_products(self.model)
        else:
            fitting = {
                _name(path)
                for path, _ in leaves
                if last_name(path) == "weights" and "embedding" not in _name(path)
            }
        return [
            name
            for name, leaf in self._named().items()
            if np.ndim(leaf) == 2 and name in fitting and re.search(self.matrices, name)
        ]

    def _is_whole(self, name: str) -> bool:
        if name.rpartition(".")[2] in STATISTICS:  # they learn in every training
            return True
        return self.whole is not None and re.search(self.whole, name) is not None


def lora(
    model: Model,
    *,
    rank: int = 4,
    alpha: float = 8.0,
    matrices: str = "",
    whole: str | None = None,
    arrays: Tree = None,
) -> Lora:
    """A network of which only low-rank changes of its matrices are trained (LoRA).

    Args:
        model: A network from PyTorch (`fl.models.from_torch`), or one of fedloom's own.
        rank: The rank of the changes.
        alpha: A change is alpha / rank times the product of its two factors.
        matrices: A regular expression (as in `re.search`) for the names of the matrices that
            change; empty: all matrices that are used in products.
        whole: A regular expression for the names of arrays that are trained as a whole, such as
            those of a new head.
        arrays: The arrays to start from, such as `result.model`; None: those of the network, if it
            came from PyTorch.
    """
    return Lora(model, rank, alpha, matrices, whole, None if arrays is None else Base(arrays))


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _in_products(model: Graph) -> set[str]:
    """The arrays of a graph that are factors of products of matrices."""
    program = model.held.program
    arrays = dict(program.inputs)
    return {
        arrays[given.node]
        for node in program.nodes
        if node.operation.split(".")[1] in _PRODUCTS
        for given in node.args
        if isinstance(given, Ref) and given.node in arrays
    }
