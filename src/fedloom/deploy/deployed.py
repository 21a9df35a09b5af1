"""A model on its own: predict with it, save it in a small file, export it to other tools."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save

from fedloom import checksums, models
from fedloom.data.dialects import Dialect
from fedloom.data.frames import read_frame
from fedloom.data.normalising import Normalisation
from fedloom.deploy import answers, by_name, graphs, onnx_graph, other_tools
from fedloom.deploy.networks import LOG, title
from fedloom.deploy.packing import PackedArray, Sizes, pack, unpack
from fedloom.errors import DataError, ParameterError
from fedloom.exchange import wire
from fedloom.files import write_bytes
from fedloom.models.base import Model
from fedloom.models.graph.to_torch import to_torch
from fedloom.parameters import check, flag
from fedloom.preparation import Preparation
from fedloom.rows import Spec
from fedloom.types import Array, Tree

if TYPE_CHECKING:
    import polars as pl

_FORMAT = 1
_CODES, _CENTRES = "codes", "centres"
_NORMALISED = "normalisation"


@dataclasses.dataclass(frozen=True)
class Deployed:
    """A model taken from a run: a network with its arrays. A linear model is one dense layer."""

    model: Model  # the network
    arrays: Tree  # its weights
    features: tuple[int, ...]  # the shape of one row
    labels: tuple[str, ...]  # what the classes are called; none: a regression
    link: str | None = None  # what scores say: "logit", "softmax", "sign", "identity", "log", ...
    preparation: Preparation | None = None  # how tables become rows, where they were tables
    normalisation: Normalisation | None = None  # how rows were normalised, where they were

    def predict(self, x: Any, *, normalised: bool | None = None) -> np.ndarray:
        """Score rows: one score for each class, or a single one (`logit`, `sign`, `identity`).

        A model of counts returns the expected counts.

        Args:
            x: Rows of the shape `features`, stacked along a first axis; there may be none.
            normalised: For a model that was trained with `normalise`: whether rows are normalised,
                as those of `clients` are, or are as they were in the dataset.
        """
        check("predict", "normalised", normalised, flag.or_none("the run had no normalise"))
        if self.normalisation is not None:
            if normalised is None:
                raise ParameterError(
                    "predict: the model was trained on rows with mean 0 and deviation 1 "
                    "(normalise). Say normalised=False for rows as they were in the dataset, or "
                    "normalised=True for rows of clients, which are normalised."
                )
            if not normalised:
                x = self.normalisation.of(np.asarray(x))
        with jax.enable_x64(self.dtype == np.float64):
            x = jnp.asarray(x)
            if x.shape[1:] != self.features:
                raise DataError(
                    f"predict: rows must have shape {self.features}; got {x.shape[1:]}. Reshape x."
                )
            if len(x) == 0:  # of which networks cannot be computed
                one = jax.ShapeDtypeStruct((1, *self.features), x.dtype)
                like = jax.eval_shape(self.model.apply, self.arrays, one)
                return np.zeros((0, *like.shape[1:]), like.dtype)
            scores = _apply(self.model, self.arrays, x)
            return np.asarray(jnp.exp(scores) if self.link == LOG else scores)

    def predict_table(
        self, table: "str | Path | pl.DataFrame", *, keep: Sequence[str] = ()
    ) -> "pl.DataFrame":
        """Predict the rows of a table with the columns of the training files.

        Args:
            table: A CSV or Parquet file, or a Polars frame.
            keep: Columns of the table, such as an id, to put before the predictions.

        Returns:
            The kept columns, a column `prediction`, and for a classification a column
            `probability of CLASS` for each class, or `score` if scores are not probabilities. For
            survival, the kept columns and `log hazard ratio`.
        """
        source, frame = read_rows(table, self.preparation, keep)
        return self.predict_frame(source, frame, keep)

    def predict_frame(
        self, source: str, frame: "pl.DataFrame", keep: Sequence[str] = ()
    ) -> "pl.DataFrame":
        """As `predict_table`, for a frame; messages call the table `source`."""
        import polars as pl

        if self.preparation is None:
            raise DataError(
                "this model does not say how tables become features: its data were not files of "
                "sites. Give rows of numbers to predict, or run settings with [data] sites = ..."
            )
        if frame.height == 0:
            raise DataError(
                f"{source}: there must be a row to predict; the table has {frame.width} columns "
                f"and no rows. Add some."
            )
        kept = answers.kept(source, frame, keep)
        x = self.preparation.encode(source, frame).astype(self.dtype)
        said = answers.columns(self.predict(x), self.link, self.preparation.classes)
        answers.check_names(source, keep, said)
        return kept.hstack(pl.DataFrame(said)) if keep else pl.DataFrame(said)

    @property
    def dtype(self) -> np.dtype:
        """The type of its numbers."""
        return np.result_type(*(np.asarray(leaf).dtype for leaf in jax.tree.leaves(self.arrays)))

    @property
    def outputs(self) -> int:
        """How many scores a row gets; for a text, how many at each place."""
        row = jax.ShapeDtypeStruct((1, *self.features), self._of_rows)
        with jax.enable_x64(self.dtype == np.float64):
            shape = jax.eval_shape(self.model.apply, self.arrays, row).shape
        return int(shape[-1]) if len(shape) > 1 else 1

    @property
    def _of_rows(self) -> np.dtype:
        tokens = isinstance(self.model, models.EmbeddingBag | models.GRU | models.Transformer)
        if isinstance(self.model, models.Graph):
            tokens = self.model.held.program.dtype == "int"
        return np.dtype(np.int32) if tokens else self.dtype

    @property
    def sizes(self) -> Sizes:
        """How many bytes it takes on disk."""
        arrays = wire.named(self.arrays)
        packed = {name: pack(array) for name, array in arrays.items()}
        layers = {name: part for name, part in packed.items() if part is not None}
        small = sum(part.codes.nbytes + part.centres.nbytes for part in layers.values())
        large = sum(4 * arrays[name].size for name in layers)
        rest = sum(array.nbytes for name, array in arrays.items() if name not in layers)
        total = sum(4 * array.size for array in arrays.values())
        return Sizes(total, small + rest, large, small)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; arrays with few distinct numbers are packed into codes."""
        tensors: dict[str, np.ndarray] = {}
        layers: dict[str, Any] = {}
        for name, array in wire.named(self.arrays).items():
            part = pack(array)
            if part is None:
                tensors[name] = array
                continue
            tensors |= {f"{name}/{_CODES}": part.codes, f"{name}/{_CENTRES}": part.centres}
            layers[name] = {"bits": part.bits, "shape": part.shape}
        if isinstance(self.model, models.Graph):
            tensors |= graphs.frozen(self.model)
        about = {
            "format": _FORMAT,
            "model": by_name.described(self.model),
            "features": self.features,
            "packed": layers,
            "outputs": self.outputs,
            **self._facts(),
        }
        wire.write_file(Path(path), tensors, about, shared=True)

    def export_torch(self, path: str | Path) -> None:
        """Write a safetensors file with PyTorch's names and shapes, for `load_state_dict`.

        Its metadata has the labels, the link and the preparation as JSON, under `fedloom`.
        """
        state = other_tools.state_dict(self.model, self.arrays, self.features)
        metadata = {"fedloom": json.dumps(self._facts())}
        write_bytes(Path(path), save(state, metadata), shared=True)

    def to_torch(self, module: Any) -> Any:
        """Put all arrays, frozen ones too, into the PyTorch module that the network came from.

        Args:
            module: A module of the same architecture; its arrays are overwritten, and it is
                returned.
        """
        if not isinstance(self.model, models.Graph):
            raise ParameterError(
                f"to_torch: the network must have come from PyTorch; got {title(self.model)}. "
                f"Use export_torch for fedloom's own networks."
            )
        held = self.model.held
        return to_torch(module, {**held.frozen, **self.arrays}, norm=held.program.norm)

    def export_onnx(self, path: str | Path) -> None:
        """Write an ONNX graph that takes the same rows; needs fedloom[export].

        Its outputs are `scores` and, if scores have them, `probabilities`. Its metadata has the
        labels, the link and the preparation as JSON, under `fedloom`.
        """
        if isinstance(self.model, models.Graph):
            raise ParameterError(
                "export_onnx: the network came from PyTorch, which writes ONNX itself. "
                "Use to_torch, then torch.onnx.export."
            )
        state = other_tools.state_dict(self.model, self.arrays, self.features)
        rows = (self._of_rows, self.features)
        graph = onnx_graph.drawn(self.model, state, rows, self.outputs, self.link, self._facts())
        write_bytes(Path(path), graph, shared=True)

    def _facts(self) -> dict[str, Any]:
        """What a reader needs beside the arrays, without the numbers of rows at the sites."""
        how = None if self.preparation is None else _without_counts(self.preparation).as_dict()
        scaled = None if self.normalisation is None else self.normalisation.as_dict()
        facts = {"labels": self.labels, "link": self.link, "preparation": how}
        return facts | ({} if scaled is None else {_NORMALISED: scaled})


def read_rows(
    table: "str | Path | pl.DataFrame", preparation: Preparation | None, keep: Sequence[str]
) -> "tuple[str, pl.DataFrame]":
    """What messages call a table, and the table itself; files are encoded as those of training.

    What is kept and what are words, such as 007, stands as in the file.
    """
    import polars as pl

    if isinstance(table, pl.DataFrame):
        return "the table", table
    encoding = None if preparation is None else preparation.encoding
    columns = () if preparation is None else preparation.columns
    codes = [*keep, *(column.name for column in columns if column.words is not None)]
    return str(table), read_frame(Path(table), dialect=Dialect(encoding=encoding), codes=codes)


def _without_counts(preparation: Preparation) -> Preparation:
    """How columns become features, without the names of sites and their numbers of rows."""
    columns = [
        dataclasses.replace(column, counts=None, missing=min(column.missing, 1))
        for column in preparation.columns
    ]
    return dataclasses.replace(preparation, columns=columns, sites=[], bytes_up=0, bytes_down=0)


@jax.jit
def _apply(model: Model, arrays: Tree, x: Array) -> Array:
    return model.apply(arrays, x)


def load(path: Path) -> Deployed:
    """Read what `Deployed.save` wrote."""
    tensors, about = wire.read_file(path)
    if about.get("format") != _FORMAT or "packed" not in about:
        raise DataError(
            f"{path}: is not a model that fedloom packed in format {_FORMAT}. "
            f"Give a file that Deployed.save wrote."
        )
    with checksums.understood(path):
        for name, layer in about["packed"].items():
            codes, centres = tensors.pop(f"{name}/{_CODES}"), tensors.pop(f"{name}/{_CENTRES}")
            tensors[name] = unpack(
                PackedArray(codes, centres, layer["bits"], tuple(layer["shape"]))
            )
        model = by_name.rebuilt(about["model"], tensors)
        features, labels = tuple(about["features"]), tuple(about["labels"])
        outputs = about.get("outputs", len(labels))
        wide = any(array.dtype == np.float64 for array in tensors.values())
        spec = Spec(features, 0 if outputs == 1 else outputs, "float64" if wide else "float32")
        with jax.enable_x64(spec.dtype == "float64"):
            like = jax.eval_shape(lambda: model.init(jax.random.key(0), spec))
        prepared = about.get("preparation")
        return Deployed(
            model,
            wire.from_named(tensors, like),
            features,
            labels,
            about.get("link"),
            None if prepared is None else Preparation.from_dict(prepared),
            Normalisation.from_dict(about.get(_NORMALISED)),
        )
