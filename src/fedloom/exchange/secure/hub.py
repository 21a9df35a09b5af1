"""The hub's part in a secure sum: it passes keys and sealed shares on, and opens only the sum.

A round with a sum that is not opened is lost: the model and all states stay as before it, and the
run goes on with the next one. It is not played again, because sites say nothing twice in different
company.
"""

import json
from collections.abc import Callable, Collection, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import FederationError, UnopenedError, WireError
from fedloom.exchange import wire
from fedloom.exchange.expected import Expected
from fedloom.exchange.hub import Hub, Letter, Lost, Tag
from fedloom.exchange.secure import masks, shamir
from fedloom.exchange.secure.circle import LEAST, threshold
from fedloom.exchange.secure.grid import from_ring, limit
from fedloom.exchange.secure.member import masked_body, read_masked
from fedloom.exchange.secure.sums import Kinds, SummedReplies, unflat
from fedloom.protocol import Ask, Cohort
from fedloom.types import Tree

_LONGEST_CARD = 8192  # bytes; keys, a certificate and a signature take about 1.8 kB
_LONGEST_ENTRY = 2048  # bytes; a sealed pair of shares takes about 700
_PATIENCE = 3  # rounds lost in a row, after which a person should look


class SecureHub(Hub):
    """A hub whose exchanges are secure sums. Five messages go to and fro in the place of one."""

    def __init__(self, *args: Any, sums: dict[str, tuple[Kinds, ...]], **options: Any):
        super().__init__(*args, **options)
        self.sums = sums  # which sums each exchange needs
        self._lost = 0  # rounds in a row
        self._shown: Tree = ()  # by the last round that was not lost

    def open(self) -> None:
        """The exchanges before the first round, without which there is none."""
        try:
            super().open()
        except UnopenedError as error:
            raise FederationError(
                f"the exchanges before the first round are lost: {error}. Submit the run anew, "
                f"without --resume."
            ) from error

    def step(self) -> Tree:
        """One round; a lost one counts, and changes nothing."""
        try:
            self._shown, self._lost = super().step(), 0
        except UnopenedError as error:
            self.round += 1
            self._lost += 1
            self.report(
                f"round {self.round} is lost: {error}. The model and all states stay as they were."
            )
            if self._lost == _PATIENCE:
                raise FederationError(
                    f"{_PATIENCE} rounds in a row are lost; the last one because {error}. See the "
                    f"notes and the sites' logs, fix the cause, then go on with --resume."
                ) from error
        return self._shown

    def _exchange(
        self, request: Ask, expected: Expected, round: int, exchange: int, ages: dict[int, Tag]
    ) -> Any:
        ids = np.asarray(request.to.ids)
        present = np.asarray(request.to.present) & bool(request.when)
        letters = self.letters(request, present, round, exchange, ages)
        kinds = self.sums["opening" if round == 0 else "round"][exchange - 1]
        count = len(kinds) * sum(int(np.prod(v.shape)) for v in jax.tree.leaves(expected.reply))
        arrived: list[int] = []
        total = np.zeros(count)
        if letters:  # else the method asks nobody this time
            arrived, total = self.summed(letters, wire.encode(request.message), count)
        try:
            self.check_complete(letters, arrived)
        except FederationError as error:
            raise UnopenedError(str(error)) from error
        ages |= dict.fromkeys(arrived, (round, exchange))
        parts = unflat(total, kinds, expected.reply)
        present = present & np.isin(ids, arrived)
        weight = np.asarray(self.fed.weights)[arrived].sum(dtype=np.asarray(self.fed.weights).dtype)
        return SummedReplies(
            Cohort(jnp.asarray(ids), jnp.asarray(present), request.to.repeats),
            parts.get("plain"),
            parts.get("weighted"),
            jnp.asarray(weight),
        )

    def summed(
        self, letters: dict[int, Letter], message: bytes, count: int
    ) -> tuple[list[int], np.ndarray]:
        """Who took part, and the sum of what they sent; raises where it cannot be opened."""
        cards = self._phase("keys", letters, dict.fromkeys(letters, b""), _read_card)
        _check_enough(cards, LEAST, "sent their keys")
        needed = threshold(len(cards))
        boxes = self._phase(
            "shares",
            letters,
            dict.fromkeys(cards, json.dumps(cards).encode()),
            lambda id, data: _read_table(data, cards.keys() - {id}, str),
        )
        _check_enough(boxes, needed, "shared their seeds")
        bodies = {
            id: masked_body({u: box[id] for u, box in boxes.items() if u != id}, message)
            for id in boxes
        }
        size = count + 1  # behind the numbers comes what says that they are a sum of such that fit
        masked = self._phase("masked", letters, bodies, lambda _, data: read_masked(data, size))
        _check_enough(masked, needed, "sent their part")
        arrived = json.dumps({"arrived": sorted(masked)}).encode()
        signed = self._phase("agree", letters, dict.fromkeys(masked, arrived), _read_signature)
        _check_enough(signed, needed, "agreed to the sum")
        signatures = json.dumps({"signatures": signed}).encode()
        shares = self._phase(
            "unmask",
            letters,
            dict.fromkeys(signed, signatures),
            lambda _, data: _read_table(data, boxes.keys(), int),
        )
        _check_enough(shares, needed, "opened it")
        total = np.zeros(size, np.uint64)
        for data in masked.values():
            total = total + data
        purpose = masks.masking(message)
        keys = {id: bytes.fromhex(card[0])[: masks.LENGTH] for id, card in cards.items()}
        try:
            for id in boxes:
                secret = shamir.join({u: told[id] for u, told in shares.items()}, masks.LENGTH)
                if id in masked:
                    total = total - masks.mask(secret, size)
                else:
                    total = total - self._stray(id, secret, keys, list(masked), purpose, size)
        except (OverflowError, ValueError):
            raise UnopenedError("shares of a secure sum do not fit together") from None
        opened = from_ring(total)
        if opened is None:
            raise UnopenedError(
                f"the sum could not be opened. Either a site's numbers were not finite, or not "
                f"below {limit(len(cards)):.3g} in size, of which only that site's log tells: "
                f"scale the features, or lower the step size. Or the sites were not all asked the "
                f"same"
            )
        return sorted(masked), opened

    @staticmethod
    def _stray(
        lost: int,
        secret: bytes,
        keys: dict[int, bytes],
        there: list[int],
        purpose: str,
        count: int,
    ) -> np.ndarray:
        """The masks that those who are there share with one who is not."""
        total = np.zeros(count, np.uint64)
        for id in there:
            grown = masks.mask(masks.agree(secret, keys[id], purpose), count)
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
            except (WireError, ValueError, KeyError, TypeError, RecursionError) as error:
                self.report(f"{self.names[id]} drops out of a secure sum: {error}")
        return answers


def _check_enough(there: Collection[int], needed: int, what: str) -> None:
    if len(there) < needed:
        raise UnopenedError(f"{len(there)} sites {what}, and a secure sum needs {needed}")


def _read_card(id: int, data: bytes) -> list[Any]:
    """A site's keys, how many it wants in a sum, certificate, signature: for sites to check."""
    card = json.loads(data) if len(data) <= _LONGEST_CARD else None
    if not isinstance(card, list) or [type(part) for part in card] != [str, int, str, str]:
        raise WireError("its keys do not come with a certificate and a signature")
    if len(bytes.fromhex(card[0])) != 2 * masks.LENGTH:
        raise WireError("its keys are too long or too short")
    return card


def _read_signature(id: int, data: bytes) -> str:
    if not 0 < len(data) <= _LONGEST_ENTRY:
        raise WireError(f"its signature has {len(data)} bytes")
    return data.hex()


def _read_table(data: bytes, ids: Iterable[int], kind: type) -> dict[int, Any]:
    """A table with one entry for each member."""
    wanted = set(ids)
    if len(data) > _LONGEST_ENTRY * len(wanted):
        raise WireError(f"a table of {len(data)} bytes is too long for {len(wanted)} members")
    told = json.loads(data)
    table = {int(id): value for id, value in told.items()} if isinstance(told, dict) else {}
    if table.keys() != wanted or not all(type(value) is kind for value in table.values()):
        raise WireError("its table does not have one entry for each member")
    return table
