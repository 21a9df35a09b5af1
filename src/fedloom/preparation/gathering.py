"""Texts of any length from all clients to the hub, over messages of one shape.

    client i    its text in UTF-8, as bytes, with zeros up to the longest client's length
    hub         keeps the bytes and the lengths

How many rows each client has is known to every hub; the bytes of a client's text are its rows here.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedloom.cohorts import everyone
from fedloom.data.clients import Clients
from fedloom.oracles import FedView
from fedloom.parameters import at_least, param
from fedloom.preparation.table_problem import TableRows
from fedloom.protocol import Algorithm, Round, algorithm, ask
from fedloom.rows import Rows
from fedloom.types import Array, Nothing


class Text(NamedTuple):
    """A text as bytes, and how many of them count."""

    data: Array
    length: Array


@algorithm
class Gather(Algorithm):
    """Every client's text, at the hub."""

    takes: ClassVar[str] = "table"
    needs_everyone: ClassVar[bool] = True
    longest: int = param(at_least(1), "bytes of the longest text")

    def init_hub(self, fed: FedView, key: Array, /) -> Text:
        """No text yet."""
        return Text(jnp.zeros((fed.n, self.longest), jnp.uint8), jnp.zeros(fed.n, jnp.int32))

    def round(self, hub: Text, fed: FedView, key: Array, /) -> Round:
        """One exchange."""
        replies = yield ask(self.tell, (), to=everyone(fed.n))
        return replies.scatter(fed.n), ()

    def tell(
        self, client: Nothing, message: Nothing, f: TableRows, key: Array, /
    ) -> tuple[Nothing, Text]:
        """The client's own bytes."""
        own = jnp.where(f.counts, f.x, 0).astype(jnp.uint8)
        return client, Text(jnp.zeros(self.longest, jnp.uint8).at[: own.shape[0]].set(own), f.size)

    def model(self, hub: Text, fed: FedView, /) -> Array:
        """There is none."""
        return jnp.zeros(1)


def as_clients(texts: Mapping[str, str]) -> Clients:
    """Clients that hold texts: their bytes are their rows."""
    data = [np.frombuffer(text.encode("utf-8"), np.uint8) for text in texts.values()]
    rows = np.concatenate(data)
    return Clients(Rows(rows, np.zeros_like(rows)), np.array([len(d) for d in data]), tuple(texts))


def texts_of(hub: Text) -> list[str]:
    """The texts that the hub has gathered."""
    pairs = zip(np.asarray(hub.data), np.asarray(hub.length), strict=True)
    return [data[:length].tobytes().decode("utf-8") for data, length in pairs]
