"""A site's part in a secure sum.

It trusts its own kit and the project's root. What the server says is checked against signatures of
the other members, and against what this site has said before.
"""

import contextlib
import json
import logging
import secrets
from collections.abc import Callable

import numpy as np
from cryptography.exceptions import InvalidTag

from fedloom.errors import FedloomError, RefusedError, StaleStateError, UnopenedError, WireError
from fedloom.exchange.hub import Letter, Tag
from fedloom.exchange.secure import masks, shamir
from fedloom.exchange.secure.circle import LEAST, Circle, digest, threshold
from fedloom.exchange.secure.grid import fits, noise, to_ring
from fedloom.exchange.secure.identity import Identity
from fedloom.exchange.secure.ledger import Ledger
from fedloom.exchange.secure.sums import Kinds, flat
from fedloom.files import locked
from fedloom.types import Tree

log = logging.getLogger("fedloom")
PHASES = ("keys", "shares", "masked", "agree", "unmask")


class Member:
    """What a site keeps during one exchange."""

    def __init__(
        self,
        id: int,
        weight: float,
        sums: dict[str, tuple[Kinds, ...]],
        answer: Callable[[Letter], Tree],
        *,
        identity: Identity,
        circle: Circle,
        ledger: Ledger,
        least: int = LEAST,
    ):
        circle.check(id, identity.name)
        self.id = id
        self.weight = weight
        self.sums = sums
        self.identity = identity
        self.circle = circle
        self.ledger = ledger
        self._answer = answer
        self.least = least  # the owner's word on how many must be in a sum
        self._place: Tag | None = None
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
        due, self._next = self._next, ""  # a phase that fails is the last one
        try:
            reply = self._play(letter)
        except StaleStateError:
            self._next = due  # nothing was said; the hub may let this site start afresh
            raise
        except FedloomError:
            raise
        except (LookupError, ValueError, TypeError, InvalidTag) as error:
            raise WireError(
                f"a letter of the secure sum is not what it should be: {error!r}. "
                f"Begin the exchange anew."
            ) from error
        self._next = (*PHASES, "")[PHASES.index(due) + 1]
        return reply

    def _play(self, letter: Letter) -> bytes:
        return getattr(self, f"_{letter.phase}")(letter)

    def _keys(self, letter: Letter) -> bytes:
        self._mask_key, self._share_key = masks.new_key(), masks.new_key()
        self._seed = secrets.token_bytes(masks.LENGTH)
        keys = (masks.public(self._mask_key) + masks.public(self._share_key)).hex()
        signature = self.identity.sign(self.circle.keys_text(letter, self.id, keys, self.least))
        self._card = [keys, self.least, self.identity.certificate, signature.hex()]
        return json.dumps(self._card).encode()

    def _shares(self, letter: Letter) -> bytes:
        """Check whose keys these are; then share the two secrets among their owners."""
        self._cards = {int(id): card for id, card in json.loads(letter.body).items()}
        if len(self._cards) < max(LEAST, self.least):
            raise RefusedError(
                f"a secure sum needs {max(LEAST, self.least)} members or more, by this site's "
                f"policy or by itself; here are {len(self._cards)}. Ask more sites."
            )
        if self._cards.get(self.id) != self._card:
            raise RefusedError("this site's own keys came back changed, or not at all.")
        self._keys_of: dict[int, tuple[bytes, bytes]] = {}
        for id, (keys, least, certificate, signature) in self._cards.items():
            if not 0 <= id < len(self.circle.names):
                raise RefusedError(f"there is no site with the number {id} in this run.")
            text = self.circle.keys_text(letter, id, keys, least)
            name = self.circle.names[id]
            self.identity.check(name, certificate, bytes.fromhex(signature), text)
            both = bytes.fromhex(keys)
            self._keys_of[id] = (both[: masks.LENGTH], both[masks.LENGTH :])
        # Shares are sealed for those who saw the same keys; among them are those of this site,
        # which are fresh, so that nothing of an earlier exchange can be put in between.
        self._context = digest(letter.body).encode()
        self._threshold = threshold(len(self._cards))
        seeds = shamir.split(self._seed, self._cards, self._threshold)
        secret_keys = shamir.split(self._mask_key, self._cards, self._threshold)
        self._held = {self.id: (seeds[self.id], secret_keys[self.id])}
        sealed = {}
        for id in self._cards.keys() - {self.id}:
            text = json.dumps([seeds[id], secret_keys[id]]).encode()
            sealed[id] = masks.seal(self._lock(id), self.id, id, text, self._context).hex()
        return json.dumps(sealed).encode()

    def _lock(self, other: int) -> bytes:
        return masks.agree(self._share_key, self._keys_of[other][1], "share")

    def _masked(self, letter: Letter) -> bytes:
        """The reply, hidden; only now does the client's method run."""
        size = int.from_bytes(letter.body[:4], "big")
        sealed = {int(id): text for id, text in json.loads(letter.body[4 : 4 + size]).items()}
        message = letter.body[4 + size :]
        self._members = sorted({*sealed, self.id})
        if not self._cards.keys() >= set(self._members) or len(self._members) < self._threshold:
            raise RefusedError(
                f"a secure sum needs {self._threshold} members that shared their seeds; here are "
                f"{len(self._members)}. Begin the exchange anew."
            )
        for id in sealed.keys() - {self.id}:
            box = bytes.fromhex(sealed[id])
            opened = masks.unseal(self._lock(id), id, self.id, box, self._context)
            seed, secret_key = json.loads(opened)
            self._held[id] = (int(seed), int(secret_key))
        # What all members must have been asked alike; the state to answer from is each one's own.
        question = self.circle.letter_digest(letter._replace(after=None), message, self._members)
        self._said = digest(self._context + question.encode())
        total = self._part(letter._replace(body=message))
        total = total + masks.mask(self._seed, len(total))
        for id in set(self._members) - {self.id}:
            seed = masks.agree(self._mask_key, self._keys_of[id][0], masks.masking(message))
            grown = masks.mask(seed, len(total))
            total = total + grown if id > self.id else total - grown
        return total.astype("<u8").tobytes()

    def _part(self, letter: Letter) -> np.ndarray:
        """This site's part of the sum: the one that it gave before, or a new one, noted."""
        place = (letter.round, letter.exchange)
        question = self.circle.letter_digest(letter, letter.body, self._members)
        with locked(self.ledger.folder):
            known = self.ledger.part(place, question)
            if known is None:
                known = self._new_part(letter).tobytes()
                self.ledger.note_part(place, question, known)
        return np.frombuffer(known, np.uint64)

    def _new_part(self, letter: Letter) -> np.ndarray:
        """The reply's part, or noise in its place.

        Whether a reply to this model fits is about this site alone: asked of one model after the
        other, it would tell numbers of its rows to any digit. So only its own log hears of it.
        """
        kinds = self.sums["opening" if letter.round == 0 else "round"][letter.exchange - 1]
        numbers = flat(self._answer(letter), kinds, self.weight)
        if fits(numbers, len(self._cards)):
            return to_ring(numbers)
        log.warning(
            "the reply to exchange %s of round %s is not finite or too large for a secure sum; "
            "noise is sent in its place, and the sum is not opened",
            letter.exchange,
            letter.round,
        )
        return noise(len(numbers))

    def _agree(self, letter: Letter) -> bytes:
        """Sign who is in the sum, where they are enough and no other sum was agreed to."""
        self._arrived = sorted(set(json.loads(letter.body)["arrived"]))
        if self.id not in self._arrived or not set(self._arrived) <= set(self._members):
            raise RefusedError("who is in the sum are not members, or this site is left out.")
        # The others could open a sum without the one whose policy forbids it, so they mind it too.
        needed = max(self._threshold, *(self._cards[id][1] for id in self._arrived))
        if len(self._arrived) < needed:
            raise UnopenedError(
                f"a secure sum of these sites is opened with {needed} answers or more, by their "
                f"policies or by itself; after drop-outs here are {len(self._arrived)}"
            )
        text = self.circle.arrived_text(letter, self._said, self._members, self._arrived)
        # Without `said`, which has fresh keys in it: the same sum may be opened once more.
        who = self.circle.arrived_text(letter, "", self._members, self._arrived)
        with locked(self.ledger.folder):  # two jobs of one run may be here at a time
            self.ledger.note_arrived((letter.round, letter.exchange), digest(who))
        return self.identity.sign(text)

    def _unmask(self, letter: Letter) -> bytes:
        """Shares of the seeds of who is in the sum, and of the mask keys of who is not."""
        told = {int(id): s for id, s in json.loads(letter.body)["signatures"].items()}
        text = self.circle.arrived_text(letter, self._said, self._members, self._arrived)
        agreed = 0
        for id in told.keys() & set(self._arrived):
            with contextlib.suppress(RefusedError):  # one who lies cannot stop the others
                certificate = self._cards[id][2]
                name = self.circle.names[id]
                self.identity.check(name, certificate, bytes.fromhex(told[id]), text)
                agreed += 1
        if agreed < self._threshold:
            raise RefusedError(
                f"{agreed} of {self._threshold} members agree with this site on the question and "
                f"on who is in the sum. The server tells them different things."
            )
        return json.dumps(
            {id: self._held[id][id not in self._arrived] for id in self._members}
        ).encode()


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
