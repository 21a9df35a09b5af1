"""A site's part in a secure sum."""

import json
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag

from fedloom.engines.hub import Letter
from fedloom.engines.secure import masks, shamir
from fedloom.engines.secure.grid import to_ring
from fedloom.engines.secure.sums import Kinds, flat
from fedloom.errors import RefusedError, WireError

Tree = Any
PHASES = ("keys", "shares", "masked", "unmask")


def threshold(members: int) -> int:
    """How many must stay to the end: more than half, so that no two groups can both suffice."""
    return members // 2 + 1


class Member:
    """What a site keeps during one exchange."""

    def __init__(
        self,
        id: int,
        weight: float,
        sums: dict[str, tuple[Kinds, ...]],
        answer: Callable[[Letter], Tree],
        check: Callable[[int], None] = lambda members: None,
    ):
        self.id = id
        self.weight = weight
        self.sums = sums
        self._answer = answer
        self._check = check  # the owner's word on how many must take part
        self._place: tuple[int, int] | None = None
        self._next = ""

    def reply_to(self, letter: Letter) -> bytes:
        """Play one phase; phases come in their order, each once."""
        place = (letter.round, letter.exchange)
        if letter.phase == "keys":
            self._place, self._next = place, "keys"
        if letter.phase not in PHASES or letter.phase != self._next or place != self._place:
            raise RefusedError(
                f"phase {letter.phase!r} of a secure sum is not due; it is {self._next or 'none'}. "
                f"Begin the exchange anew."
            )
        phase = PHASES.index(letter.phase)
        self._next = "" if phase == len(PHASES) - 1 else PHASES[phase + 1]
        try:
            return getattr(self, f"_{letter.phase}")(letter)
        except (KeyError, ValueError, TypeError, InvalidTag) as error:
            self._next = ""
            raise WireError(
                f"a letter of the secure sum is not what it should be: {error}. "
                f"Begin the exchange anew."
            ) from error

    def _keys(self, letter: Letter) -> bytes:
        self._mask_key, self._share_key = masks.new_key(), masks.new_key()
        self._seed = secrets.token_bytes(masks.LENGTH)
        return masks.public(self._mask_key) + masks.public(self._share_key)

    def _shares(self, letter: Letter) -> bytes:
        keys = {int(id): bytes.fromhex(key) for id, key in json.loads(letter.body).items()}
        self._check(len(keys))
        if self.id not in keys or len(keys) < 3:
            raise RefusedError(
                f"a secure sum needs 3 members or more; here are {len(keys)}. Ask more sites."
            )
        self._keys_of = {id: (key[: masks.LENGTH], key[masks.LENGTH :]) for id, key in keys.items()}
        self._threshold = threshold(len(keys))
        seeds = shamir.split(self._seed, keys, self._threshold)
        secret_keys = shamir.split(self._mask_key, keys, self._threshold)
        sealed = {}
        for id, (_, other) in self._keys_of.items():
            text = json.dumps([seeds[id], secret_keys[id]]).encode()
            if id == self.id:
                self._own_shares = text
            else:
                key = masks.agree(self._share_key, other, "share")
                sealed[id] = masks.seal(key, self.id, id, text).hex()
        return json.dumps(sealed).encode()

    def _masked(self, letter: Letter) -> bytes:
        """The reply, hidden; only now does the client's method run."""
        size = int.from_bytes(letter.body[:4], "big")
        sealed = json.loads(letter.body[4 : 4 + size])
        self._sealed = {int(id): bytes.fromhex(text) for id, text in sealed.items()}
        members = {*self._sealed, self.id}
        if not members <= self._keys_of.keys() or len(members) < self._threshold:
            raise RefusedError(
                f"a secure sum needs {self._threshold} members that shared their seeds; here are "
                f"{len(members)}. Begin the exchange anew."
            )
        self._members = members
        reply = self._answer(letter._replace(body=letter.body[4 + size :]))
        stage = "opening" if letter.round == 0 else "round"
        kinds = self.sums[stage][letter.exchange - 1]
        total = to_ring(flat(reply, kinds, self.weight), len(self._keys_of))
        total = total + masks.mask(self._seed, len(total))
        for id in members - {self.id}:
            seed = masks.agree(self._mask_key, self._keys_of[id][0], "mask")
            grown = masks.mask(seed, len(total))
            total = total + grown if id > self.id else total - grown
        return total.astype("<u8").tobytes()

    def _unmask(self, letter: Letter) -> bytes:
        """Shares of the seeds of who answered, and of the mask keys of who did not."""
        told = json.loads(letter.body)
        arrived = set(told["arrived"])
        if not arrived <= self._members or len(arrived) < self._threshold:
            raise RefusedError(
                f"a secure sum is opened with {self._threshold} answers or more; here are "
                f"{len(arrived)}. Begin the exchange anew."
            )
        shares = {}
        for id in self._members:
            text = self._own_shares
            if id != self.id:
                key = masks.agree(self._share_key, self._keys_of[id][1], "share")
                text = masks.unseal(key, id, self.id, self._sealed[id])
            seed, secret_key = json.loads(text)
            shares[id] = seed if id in arrived else secret_key
        return json.dumps(shares).encode()


def masked_body(sealed: dict[int, str], message: bytes) -> bytes:
    """The body of a letter of the third phase: what others have sealed, then the message."""
    text = json.dumps(sealed).encode()
    return len(text).to_bytes(4, "big") + text + message


def read_masked(data: bytes, count: int) -> np.ndarray:
    """A masked reply."""
    if len(data) != 8 * count:
        raise WireError(
            f"a masked reply must have {8 * count} bytes; got {len(data)}. "
            f"Both ends must run the same settings."
        )
    return np.frombuffer(data, "<u8").astype(np.uint64)
