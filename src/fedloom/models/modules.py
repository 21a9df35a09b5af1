"""Modules of Equinox and Flax as networks; each library is needed only for its own modules.

A model here is a function of its arrays and of the rows: what a module keeps between calls (batch
norm's statistics) has no place in it, and is refused. Dropout draws by the key of the batch, row by
row, and is off in evaluation.
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import DataError, ParameterError
from fedloom.models.base import Model, Pair
from fedloom.models.dropout import row_keys
from fedloom.rows import Spec
from fedloom.types import Array, Held, Tree

_NO_STATISTICS = (
    "Clients' statistics differ, and an average of them is nobody's: use a norm over groups or "
    "layers ({instead}) in its place."
)


def from_equinox(module: Any) -> Model:
    """Use an Equinox module as a network.

    The module is called with one row, and mapped over the rows of a batch. Its arrays of
    floating-point numbers are trained, and every run starts from their values; everything else in
    it stays. `equinox.combine(result.model, module)` is the trained module. In training, a module
    with dropout is also called with `key=`; in evaluation it is in inference mode.

    Args:
        module: The module. It takes a row and returns one number for each class, or fitted values.
            Images have their channels last; a module that needs them first must begin with
            `equinox.nn.Lambda(lambda x: jax.numpy.moveaxis(x, -1, 0))`.
    """
    eqx = _library("equinox", "from_equinox")
    if not isinstance(module, eqx.Module) or not callable(module):
        raise ParameterError(
            f"from_equinox: module must be an equinox.Module that can be called; got "
            f"{type(module).__name__}. Pass the module itself, such as equinox.nn.MLP(...)."
        )
    _refuse_equinox(eqx, module)
    trained, rest = eqx.partition(module, eqx.is_inexact_array)
    _, at_rest = eqx.partition(eqx.nn.inference_mode(module), eqx.is_inexact_array)

    def call(arrays: Tree, x: Held) -> Array:
        return jax.vmap(eqx.combine(arrays, at_rest))(x)

    def train(arrays: Tree, x: Held, key: Array) -> Array:
        own = eqx.combine(arrays, rest)
        return jax.vmap(lambda row, key: own(row, key=key))(x, row_keys(key, len(x)))

    def create(key: Array, spec: Spec) -> Tree:
        start = _as(trained, spec.dtype)
        rows = [jax.ShapeDtypeStruct((1, *spec.features), kind) for kind in (spec.dtype, "int32")]
        _check_outputs("from_equinox", _first_outputs(call, start, rows), spec)
        return start

    drops = any(
        isinstance(part, eqx.nn.Dropout) and not part.inference and part.p > 0
        for part in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, eqx.nn.Dropout))
    )
    if drops and "key" not in inspect.signature(module).parameters:
        raise ParameterError(
            f"from_equinox: {type(module).__name__} has dropout, and its call must take key=, as "
            f"those of Equinox's own modules do. Or switch it off: "
            f"from_equinox(equinox.nn.inference_mode(module))."
        )
    return Pair(create, call, train if drops else None)


def _refuse_equinox(eqx: Any, module: Any) -> None:
    kind = eqx.nn.StateIndex
    for part in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, kind)):
        if isinstance(part, kind):
            raise ParameterError(
                f"from_equinox: module must keep no state between calls; {type(module).__name__} "
                f"has a layer that does, such as BatchNorm. "
                f"{_NO_STATISTICS.format(instead='equinox.nn.GroupNorm, equinox.nn.LayerNorm')}"
            )


def _first_outputs(call: Any, arrays: Tree, rows: list[jax.ShapeDtypeStruct]) -> Any:
    """The shape of the outputs, for the first kind of rows that the module can take."""
    errors: list[Exception] = []
    for kind in rows:
        try:
            return jax.eval_shape(call, arrays, kind)
        except (TypeError, ValueError, AssertionError) as error:
            errors.append(error)
    raise DataError(
        f"from_equinox: the module must take one row of shape {rows[0].shape[1:]}, images with "
        f"their channels last; it failed with: {errors[0]}. Begin it with a layer that brings the "
        f"row into the shape that it wants."
    ) from errors[0]


def from_flax(
    module: Any, example: Any, *, in_training: Mapping[str, Any] | None = None, **arguments: Any
) -> Model:
    """Use a Flax module, of linen or nnx, as a network. It is called with a batch of rows.

    A linen module gets fresh parameters for every seed, by its own `init`;
    `module.apply(result.model, x)` is the trained network. An nnx module has parameters of its own,
    and every run starts from them; `nnx.update(module, result.model)` puts the trained ones in. It
    is trained in the mode that it is in, and evaluated as after `module.eval()`.

    Args:
        module: The module. It takes rows and returns for each one number per class, or fitted
            values.
        example: Some rows of the data, such as `x[:1]`.
        in_training: For a linen module, the arguments of its call that are different in training,
            such as `{"train": True}`; it may then use dropout.
        arguments: Further arguments of the module's call, such as `train=False`.
    """
    _library("flax", "from_flax")
    from flax import linen, nnx

    example = np.asarray(example)
    if example.ndim < 2:
        raise ParameterError(
            f"from_flax: example must be rows of data, with one axis for the rows and at least one "
            f"more; got shape {example.shape}. Pass x[:1]."
        )
    if isinstance(module, linen.Module):
        return _from_linen(module, example, arguments, in_training)
    if isinstance(module, nnx.Module):
        if in_training is not None:
            raise ParameterError(
                "from_flax: in_training is for modules of flax.linen; those of nnx know by "
                "themselves whether they are trained. Leave it out."
            )
        return _from_nnx(module, example, arguments)
    raise ParameterError(
        f"from_flax: module must be a flax.linen.Module or a flax.nnx.Module; got "
        f"{type(module).__name__}. Pass the module itself, made and not only its class."
    )


def _from_linen(
    module: Any,
    example: np.ndarray,
    arguments: dict[str, Any],
    in_training: Mapping[str, Any] | None,
) -> Model:
    from flax import errors

    def call(arrays: Tree, x: Held) -> Array:
        return module.apply(arrays, x, **arguments)

    def train(arrays: Tree, x: Held, key: Array) -> Array:
        def row(x: Array, key: Array) -> Array:
            named = {**arguments, **(in_training or {})}
            outputs: Array = module.apply(arrays, x[None], rngs={"dropout": key}, **named)[0]
            return outputs

        return jax.vmap(row)(jnp.asarray(x), row_keys(key, len(x)))

    def fresh(key: Array) -> Tree:
        return module.init(key, jnp.asarray(example), **arguments)

    variables = jax.eval_shape(fresh, jax.random.key(0))
    _refuse_state(module, set(variables) - {"params"}, "flax.linen")
    try:
        outputs = jax.eval_shape(call, variables, example)
    except errors.InvalidRngError as error:
        raise _draws(
            module,
            "deterministic=True, or train=False as its call names it, and if you wish "
            "in_training={'train': True} beside it",
        ) from error

    def create(key: Array, spec: Spec) -> Tree:
        _check_rows(example, spec)
        _check_outputs("from_flax", outputs, spec)
        return _as(fresh(key), spec.dtype)

    return Pair(create, call, None if in_training is None else train)


def _from_nnx(module: Any, example: np.ndarray, arguments: dict[str, Any]) -> Model:
    from flax import nnx

    at_rest = nnx.clone(module)
    at_rest.eval()
    if _draws_nnx(at_rest, example, arguments):
        raise _draws(module, "let module.eval() do so")
    graph, params, rest = nnx.split(module, nnx.Param, ...)
    resting = nnx.split(at_rest, nnx.Param, ...)
    kinds = {type(leaf) for _, leaf in nnx.to_flat_state(rest)}
    kept = {kind.__name__ for kind in kinds if not issubclass(kind, nnx.RngState)}
    _refuse_state(module, kept, "flax.nnx")
    trained = nnx.to_pure_dict(params)

    def merged(graph: Any, arrays: Tree, rest: Any) -> Any:
        state = nnx.clone(params)
        nnx.replace_by_pure_dict(state, arrays)
        return nnx.merge(graph, state, rest)

    def call(arrays: Tree, x: Held) -> Array:
        return merged(resting[0], arrays, resting[2])(x, **arguments)

    def train(arrays: Tree, x: Held, key: Array) -> Array:
        def row(x: Array, key: Array) -> Array:
            drawn = nnx.clone(rest)
            for place, (_, leaf) in enumerate(nnx.to_flat_state(drawn)):
                if isinstance(leaf, nnx.RngKey):
                    leaf.set_value(jax.random.fold_in(key, place))
            return merged(graph, arrays, drawn)(x[None], **arguments)[0]

        return jax.vmap(row)(jnp.asarray(x), row_keys(key, len(x)))

    outputs = jax.eval_shape(call, trained, jnp.asarray(example[:1]))

    def create(key: Array, spec: Spec) -> Tree:
        _check_rows(example, spec)
        _check_outputs("from_flax", outputs, spec)
        return _as(trained, spec.dtype)

    drops = _draws_nnx(module, example, arguments)
    return Pair(create, call, train if drops else None)


def _draws_nnx(module: Any, example: np.ndarray, arguments: dict[str, Any]) -> bool:
    """Whether a call of the module draws random numbers."""
    from flax import nnx

    tried = nnx.clone(module)
    tried(jnp.asarray(example[:1]), **arguments)
    before, after = (jax.tree.leaves(nnx.state(m, nnx.RngCount)) for m in (module, tried))
    return before != after


def _refuse_state(module: Any, kept: set[str], library: str) -> None:
    if kept:
        instead = f"{library}.GroupNorm, {library}.LayerNorm"
        raise ParameterError(
            f"from_flax: module must have parameters and nothing else; {type(module).__name__} "
            f"keeps {', '.join(sorted(kept))} as well. {_NO_STATISTICS.format(instead=instead)}"
        )


def _draws(module: Any, off: str) -> ParameterError:
    return ParameterError(
        f"from_flax: module must draw no random numbers in evaluation; {type(module).__name__} "
        f"does, as with dropout. Switch it off: {off}."
    )


def _check_rows(example: np.ndarray, spec: Spec) -> None:
    if example.shape[1:] != spec.features:
        raise DataError(
            f"from_flax: example must have rows as the data have them, of shape {spec.features}; "
            f"got {example.shape[1:]}. Pass x[:1] of these data."
        )


def _check_outputs(owner: str, outputs: Any, spec: Spec) -> None:
    if spec.classes > 1 and outputs.shape[-1:] != (spec.classes,):
        raise DataError(
            f"{owner}: the module must give {spec.classes} numbers for each row, one for each "
            f"class; its outputs for {outputs.shape[0]} rows have shape {outputs.shape}. Change "
            f"the width of its last layer."
        )


def _as(tree: Tree, dtype: str) -> Tree:
    """The arrays in the precision of the run."""
    if any(jnp.iscomplexobj(leaf) for leaf in jax.tree.leaves(tree)):
        raise ParameterError(
            "the module has arrays of complex numbers, which no method trains. Keep their real "
            "and imaginary parts in two arrays."
        )
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)


def _library(name: str, owner: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ParameterError(
            f"{owner}: it needs {name}, which is not here. Install it: pip install {name}."
        ) from error
