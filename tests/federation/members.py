"""Members of secure sums with certificates, without rows, and a hub that sums over them."""

import numpy as np
import pytest

from federation.authority import certify
from fedloom.errors import FedloomError, UnopenedError
from fedloom.exchange.hub import Letter, Lost
from fedloom.exchange.secure import grid, hub
from fedloom.exchange.secure.circle import Circle
from fedloom.exchange.secure.hub import SecureHub
from fedloom.exchange.secure.identity import Identity
from fedloom.exchange.secure.ledger import Ledger
from fedloom.exchange.secure.member import Member

PLAIN = {"round": (("plain",),)}
VECTORS = np.random.default_rng(7).normal(size=(5, 6))


def members(folder, count, weights, sums, answers, least=()):
    """Members in kits of their own, all told the same; some may want more than others."""
    names = tuple(f"s{id}" for id in range(count))
    return [
        Member(
            id,
            weights[id],
            sums,
            answers[id],
            identity=Identity(_kit(folder, name)),
            circle=Circle("a-run", names, "told"),
            ledger=Ledger(folder / name),
            least=dict(least).get(id, 1),
        )
        for id, name in enumerate(names)
    ]


def _kit(folder, name):
    kit = folder / name
    return kit if kit.exists() else certify(kit)


class Members:
    """A transport to members who hold vectors; some leave before a phase."""

    def __init__(self, folder, vectors, leave, least=()):
        self.seen = {}
        self.leave = leave  # phase -> who is gone from then on
        self.gone = set()
        answers = [lambda letter, v=vector: v for vector in vectors]
        count = len(vectors)
        self.members = members(folder, count, [1.0] * count, PLAIN, answers, least)

    def send(self, letters):
        phase = next(iter(letters.values())).phase
        self.gone |= self.leave.get(phase, set())
        self.seen[phase] = {
            id: self.members[id].reply_to(letter)
            for id, letter in letters.items()
            if id not in self.gone
        }
        return {id: self.seen[phase].get(id, Lost("gone")) for id in letters}


def letter(phase="", body=b"", round=1):
    return Letter("train", body, round, 1, 3, (0, 0), phase)


def summing(transport, ids, count, round=1):
    """The sum that a hub finds over such a transport, and who is in it."""
    one = SecureHub.__new__(SecureHub)
    one.transport, one.fresh_if_stale, one.names = transport, False, [f"s{i}" for i in range(9)]
    one.bytes_down = one.bytes_up = 0
    one.report = lambda text: None
    return one.summed({id: letter(round=round) for id in ids}, b"", count)


def sums_before_judging(monkeypatch):
    """What hubs open from now on, be it noise."""
    seen = []

    def heard(total):
        seen.append(total[:-1].view(np.int64) * 2.0**-grid.BITS)
        return grid.from_ring(total)

    monkeypatch.setattr(hub, "from_ring", heard)
    return seen


def secure_sum(folder, vectors, leave):
    """The sum that a hub finds, who is in it, and what passed through its hands."""
    transport = Members(folder, vectors, leave)
    arrived, total = summing(transport, range(len(vectors)), len(vectors[0]))
    return arrived, total, transport


class Attack(Members):
    """A transport that changes letters, and notes who refuses what."""

    def __init__(self, folder, vectors=VECTORS, change=lambda id, letter: letter, **options):
        super().__init__(folder, vectors, options.pop("leave", {}), **options)
        self.change = change
        self.refusals = {}
        self.said = {}  # phase -> who answered

    def send(self, letters):
        answers = {}
        for id, letter in letters.items():
            try:
                if id in self.leave.get(letter.phase, ()):
                    raise UnopenedError("gone")
                answers[id] = self.members[id].reply_to(self.change(id, letter))
                self.said.setdefault(letter.phase, set()).add(id)
            except FedloomError as error:
                self.refusals[id] = error
                answers[id] = Lost(str(error))
        return answers

    def opens_nothing(self, ids=range(5), round=1):
        with pytest.raises(UnopenedError):
            summing(self, ids, VECTORS.shape[1], round)
