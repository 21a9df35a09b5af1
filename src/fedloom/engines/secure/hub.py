"""The hub's part in a secure sum: it passes keys and sealed shares on, and opens only the sum."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.engines import wire
from fedloom.engines.hub import Hub, Letter, Lost, Tag
from fedloom.engines.schema import Expected
from fedloom.engines.secure import masks, shamir
from fedloom.engines.secure.grid import from_ring
from fedloom.engines.secure.member import masked_body, read_masked, threshold
from fedloom.engines.secure.sums import Kinds, Sums, unflat
from fedloom.errors import WireError
from fedloom.protocol import Ask, Cohort

Tree = Any
_LONGEST_ENTRY = 2048  # bytes; a sealed pair of shares takes about 700


class SecureHub(Hub):
    """A hub whose exchanges are secure sums. Four messages go to and fro in the place of one."""

    sums: dict[str, tuple[Kinds, ...]]  # which sums each exchange needs; set before the opening

    def _exchange(
        self, request: Ask, expected: Expected, round: int, exchange: int, ages: dict[int, Tag]
    ) -> Any:
        ids = np.asarray(request.to.ids)
        present = np.asarray(request.to.present) & bool(request.when)
        letters = self.letters(request, present, round, exchange, ages)
        kinds = self.sums["opening" if round == 0 else "round"][exchange - 1]
        numbers = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(expected.reply))
        arrived, total = self._sum(letters, wire.encode(request.message), numbers * len(kinds))
        self.check_complete(letters, arrived)
        ages |= dict.fromkeys(arrived, (round, exchange))
        parts = unflat(total, kinds, expected.reply)
        present = present & np.isin(ids, arrived)
        weight = np.asarray(self.fed.weights)[arrived].sum(dtype=np.asarray(self.fed.weights).dtype)
        return Sums(
            Cohort(jnp.asarray(ids), jnp.asarray(present), request.to.repeats),
            parts.get("plain"),
            parts.get("weighted"),
            jnp.asarray(weight),
        )

    def _sum(
        self, letters: dict[int, Letter], message: bytes, count: int
    ) -> tuple[list[int], np.ndarray]:
        """Who took part, and the sum of what they sent; nobody and zero where too many left."""
        nothing: tuple[list[int], np.ndarray] = ([], np.zeros(count))
        keys = self._phase("keys", letters, dict.fromkeys(letters, b""), _read_keys)
        if len(keys) < 3:
            return nothing
        needed = threshold(len(keys))
        text = json.dumps({id: key.hex() for id, key in keys.items()}).encode()
        boxes = self._phase(
            "shares",
            letters,
            dict.fromkeys(keys, text),
            lambda id, data: _read_table(data, keys.keys() - {id}, str),
        )
        bodies = {
            id: masked_body({u: box[id] for u, box in boxes.items() if u != id}, message)
            for id in boxes
        }
        if len(boxes) < needed:
            return nothing
        masked = self._phase("masked", letters, bodies, lambda _, data: read_masked(data, count))
        if len(masked) < needed:
            return nothing
        arrived = json.dumps({"arrived": sorted(masked)}).encode()
        shares = self._phase(
            "unmask",
            letters,
            dict.fromkeys(masked, arrived),
            lambda _, data: _read_table(data, boxes.keys(), int),
        )
        if len(shares) < needed:
            return nothing
        total = np.zeros(count, np.uint64)
        for data in masked.values():
            total = total + data
        try:
            for id in boxes:
                secret = shamir.join({u: told[id] for u, told in shares.items()}, masks.LENGTH)
                if id in masked:
                    total = total - masks.mask(secret, count)
                else:
                    total = total - self._stray(id, secret, keys, list(masked), count)
        except (OverflowError, ValueError):
            self.report("a secure sum cannot be opened: shares do not fit together")
            return nothing
        return sorted(masked), from_ring(total)

    @staticmethod
    def _stray(
        lost: int, secret: bytes, keys: dict[int, bytes], there: list[int], count: int
    ) -> np.ndarray:
        """The masks that those who are there share with one who is not."""
        total = np.zeros(count, np.uint64)
        for id in there:
            grown = masks.mask(masks.agree(secret, keys[id][: masks.LENGTH], "mask"), count)
            total = total + grown if lost > id else total - grown
        return total

    def _phase(
        self,
        phase: str,
        letters: dict[int, Letter],
        bodies: dict[int, bytes],
        read: Callable[[int, bytes], Any],
    ) -> dict[int, Any]:
        """One message to each of some members; returns what came back, from whom it was sound."""
        sent = {id: letters[id]._replace(phase=phase, body=body) for id, body in bodies.items()}
        self.bytes_down += sum(len(body) for body in bodies.values())
        answers: dict[int, Any] = {}
        for id, answer in self.deliver(sent).items():
            try:
                if isinstance(answer, Lost):
                    raise WireError(answer.reason)
                answers[id] = read(id, answer)
                self.bytes_up += len(answer)
            except (WireError, ValueError, KeyError, TypeError) as error:
                self.report(f"{self.names[id]} drops out of a secure sum: {error}")
        return answers


def _read_keys(id: int, data: bytes) -> bytes:
    if len(data) != 2 * masks.LENGTH:
        raise WireError(f"its keys have {len(data)} bytes in the place of {2 * masks.LENGTH}")
    return data


def _read_table(data: bytes, ids: Iterable[int], kind: type) -> dict[int, Any]:
    """A table with one entry for each member."""
    wanted = set(ids)
    if len(data) > _LONGEST_ENTRY * len(wanted):
        raise WireError(f"a table of {len(data)} bytes is too long for {len(wanted)} members")
    table = {int(id): value for id, value in json.loads(data).items()}
    if table.keys() != wanted or not all(type(value) is kind for value in table.values()):
        raise WireError("its table does not have one entry for each member")
    return table
