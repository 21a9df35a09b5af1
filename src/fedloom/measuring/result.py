"""The result of a run: the model, the history, each client's metrics, and the state to resume."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedloom import checksums
from fedloom.data import frames
from fedloom.errors import DataError, MissingDataError
from fedloom.exchange import wire
from fedloom.files import inside, write_bytes, write_folder
from fedloom.metrics import chosen as metrics_of
from fedloom.models.graph.to_torch import to_torch
from fedloom.pictures import curves, labels, notebook
from fedloom.pictures.picture import Picture
from fedloom.types import Tree

if TYPE_CHECKING:
    import polars as pl

_FORMAT = 1
_FILES = (
    *("model.safetensors", "state.safetensors", "info.safetensors"),
    *("history.parquet", "clients.parquet"),
)
_MORE = ("holdings.parquet",)  # where it is known who holds what
_ABOUT = "result.json"  # all that is no array or table, and the digests of the files beside it
NAMES = (*_FILES, *_MORE, _ABOUT)  # all that a saved result consists of


@jax.tree_util.register_pytree_with_keys_class
class Fields(SimpleNamespace):
    """A state that was read from a file: the fields that it had, without its class."""

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        """The fields, by name."""
        names = tuple(sorted(vars(self)))  # a file keeps arrays in an order of its own
        return [(jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in names], names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Sequence[Any]) -> "Fields":
        """The same fields with other values."""
        return cls(**dict(zip(names, values, strict=True)))


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """The result of a run. A notebook shows it as a table."""

    model: Tree  # the hub's model: one array, or a tree of arrays, as the problem defines it
    state: Any  # round, hub, clients: all that the next round needs
    rows: Sequence[dict[str, float]]  # the rows of `history`, one for each evaluation
    client_metrics: dict[str, np.ndarray]  # at the end, one value for each client
    client_names: Sequence[str]  # the names of the clients, in their order
    info: Sequence[Tree]  # the diagnostics that rounds return, one entry for each evaluation
    status: str  # "done", "interrupted", "diverged", or "unfinished" in a checkpoint
    about: dict[str, Any]  # what was run: method, problem, seed, ..., as plain values
    holdings: dict[str, Any] = dataclasses.field(default_factory=dict)  # who holds how many rows

    @property
    def history(self) -> "pl.DataFrame":
        """A table with a row for each evaluation: round, bytes, seconds and every metric."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    @property
    def clients(self) -> "pl.DataFrame":
        """A table with a row for each client: its name and its metrics at the end."""
        import polars as pl

        return pl.DataFrame({"client": list(self.client_names), **self.client_metrics})

    @property
    def final(self) -> dict[str, float]:
        """The last row of the history."""
        return self.rows[-1]

    @property
    def headline(self) -> str | None:
        """The main column of the history, which tables and pictures show first."""
        known = self.about.get("headline")
        return known if known in self.final else next(iter(labels.metrics(self.final)), None)

    def larger_is_better(self, column: str) -> bool:
        """Whether larger values of a column of the history are better."""
        return metrics_of.grows(column, self.about.get("larger_is_better", ()))

    def plot(
        self, *metrics: str, against: str = "round", log: bool = False, title: str = ""
    ) -> Picture:
        """Draw curves of metrics.

        Args:
            metrics: Columns of the history; by default the main one.
            against: The horizontal axis: "round", "bytes", "bytes_up", "bytes_down" or "seconds".
            log: Whether the vertical axis is logarithmic.
            title: The title above the picture.
        """
        chosen = metrics or ((self.headline,) if self.headline else ())
        name = self.about["algorithm"].split("(")[0]
        return curves.draw({name: self}, metrics=chosen, against=against, log=log, title=title)

    def __repr__(self) -> str:
        return f"<Result: {notebook.caption(self)}>"

    def __rich__(self) -> Any:
        return notebook.rich_table(notebook.metric_rows(self), notebook.caption(self))

    def _repr_html_(self) -> str:
        return notebook.html_table(notebook.metric_rows(self), notebook.caption(self))

    def to_torch(self, module: Any, *, norm: str | None = None) -> Any:
        """Put the hub's model into the PyTorch module that it came from; returns the module.

        For the model that a client would use: `fl.deploy.take(..., client=0).to_torch(module)`.

        Args:
            module: A module of the same architecture; its arrays are overwritten.
            norm: The `norm` that was given to `fl.models.from_torch`.
        """
        return to_torch(module, self.model, norm=norm)

    def save(self, path: str | Path) -> None:
        """Write the result to a folder, completely or not at all; `fl.load` reads it again.

        Args:
            path: The folder. If it holds an older result, that is replaced.
        """
        check_replaceable(Path(path))
        write_folder(Path(path), self.fill)

    def fill(self, folder: Path) -> None:
        """Write the files of the result to a folder; the one that lists the others comes last."""
        import polars as pl

        files = {
            "model.safetensors": wire.encode(self.model),
            "state.safetensors": wire.encode(self.state),
            "info.safetensors": wire.encode(list(self.info)),
            "history.parquet": frames.parquet_bytes(self.history),
            "clients.parquet": frames.parquet_bytes(self.clients),
        }
        if self.holdings:
            files["holdings.parquet"] = frames.parquet_bytes(pl.DataFrame(self.holdings))
        for name, data in files.items():
            write_bytes(folder / name, data, shared=True)
        digests = {name: checksums.digest(data) for name, data in files.items()}
        about = {"format": _FORMAT, "status": self.status, **self.about, "files": digests}
        checksums.write_json(folder / _ABOUT, about, shared=True)


def check_replaceable(path: Path) -> None:
    """Refuse to put a result in the place of something else."""
    if path.exists() and not (path / _ABOUT).exists():
        raise DataError(
            f"{path} exists and is not a saved result, so it is not overwritten. "
            f"Choose another path."
        )


def load(path: str | Path) -> Result:
    """Read a saved result; its states have the fields that hold arrays, without their classes."""
    folder = Path(path)
    file = inside(folder, _ABOUT)
    try:
        about = checksums.read_json(file)
    except MissingDataError:
        several = next(iter(sorted(folder.glob(f"*/*/{_ABOUT}"))), None)
        raise DataError(
            f"{folder} holds no saved result: {_ABOUT} is missing. "
            + (
                "Give the folder of a finished run; `fedloom run --resume` ends one that was "
                "interrupted."
                if several is None
                else f"It holds several runs, one for each method and seed: give one of them, "
                f"such as {several.parent}."
            )
        ) from None
    if about.pop("format", None) != _FORMAT:
        raise DataError(
            f"{folder} was written in another format than {_FORMAT}. "
            f"Read it with the fedloom version that wrote it."
        )
    with checksums.understood(file):
        status, digests = about.pop("status"), about.pop("files")
        known = {name: digests[name] for name in _FILES}
        known |= {name: digests[name] for name in _MORE if name in digests}
    data = {
        name: checksums.unchanged(inside(folder, name), digest) for name, digest in known.items()
    }
    with checksums.understood(folder):
        arrays = {
            name: wire.read(data[f"{name}.safetensors"]) for name in ("model", "state", "info")
        }
        tables = {
            name.removesuffix(".parquet"): frames.from_parquet(folder / name, raw)
            for name, raw in data.items()
            if name.endswith(".parquet")
        }
        rows, clients = tables["history"].to_dicts(), tables["clients"]
        return Result(
            model=nested(arrays["model"], namespaces=False),
            state=nested(arrays["state"]),
            rows=rows,
            client_metrics={
                name: clients[name].to_numpy() for name in clients.columns if name != "client"
            },
            client_names=clients["client"].to_list(),
            info=listed(arrays["info"], len(rows)),
            status=status,
            about=about,
            holdings=tables["holdings"].to_dict(as_series=False) if "holdings" in tables else {},
        )


def nested(arrays: dict[str, np.ndarray], *, namespaces: bool = True) -> Any:
    """Named arrays as a tree again: "hub/model" becomes `.hub.model`, and "0", "1" make a list."""
    if set(arrays) == {"value"}:
        return arrays["value"]
    heads = dict.fromkeys(name.split("/")[0] for name in arrays)
    parts = {head: _below(arrays, head, namespaces) for head in heads}
    if all(head.isdigit() for head in heads):
        return [parts[head] for head in sorted(parts, key=int)]
    return Fields(**parts) if namespaces else parts


def listed(arrays: dict[str, np.ndarray], count: int) -> list[Any]:
    """Named arrays as a list of trees: "3/weights" is in the third; empty where none is named."""
    parts: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    for name, array in arrays.items():
        place, _, rest = name.partition("/")
        parts[int(place)][rest or "value"] = array
    return [nested(part) if part else () for part in parts]


def _below(arrays: dict[str, np.ndarray], head: str, namespaces: bool) -> Any:
    if head in arrays:
        return arrays[head]
    inner = {
        name.removeprefix(f"{head}/"): array
        for name, array in arrays.items()
        if name.startswith(f"{head}/")
    }
    return nested(inner, namespaces=namespaces)
