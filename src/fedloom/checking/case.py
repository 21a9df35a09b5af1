"""A method on a small federation, and its runs on both engines."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from fedloom.checking.federations import Trial
from fedloom.data.parties import Parties
from fedloom.exchange.hub import Letter, Lost
from fedloom.exchange.in_process import InProcess, Local
from fedloom.exchange.site import Site
from fedloom.measuring.result import Result
from fedloom.population import Federation, assemble
from fedloom.protocol import Algorithm
from fedloom.pytrees import to_host
from fedloom.simulator.run import simulate
from fedloom.types import Tree

PRECISION = "float64"  # rounding is then small beside any mistake


class Wired(NamedTuple):
    """What a run on the wire engine left."""

    hub: Tree
    clients: Sequence[Tree]
    counted_down: int  # what the hub counts
    counted_up: int
    sent_down: int  # what the arrays in the letters took
    sent_up: int
    complaints: Sequence[str]  # replies that were refused, and why


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """What a law is tried on."""

    method: Algorithm
    trial: Trial
    rounds: int = 4
    batch_size: int | None = 4
    seed: int = 0

    def simulate(self, **options: Any) -> Result:
        """A run on the simulator, with some things otherwise."""
        settings: dict[str, Any] = {
            "rounds": self.rounds,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "eval_every": 2,
            "precision": PRECISION,
            "progress": False,
        }
        method = options.pop("method", self.method)
        result = simulate(method, *self.trial, **settings | options)
        if result.status == "interrupted":  # a simulation takes Ctrl-C for itself, and ends early
            raise KeyboardInterrupt
        return result

    @functools.cached_property
    def result(self) -> Result:
        """The run on the simulator."""
        return self.simulate()

    @functools.cached_property
    def wired(self) -> Wired:
        """The same run on the wire engine."""
        complaints: list[str] = []
        posts: list[_Weighing] = []

        def transport(sites: list[Site]) -> _Weighing:
            posts.append(_Weighing(sites))
            return posts[0]

        with jax.enable_x64(True):
            network = InProcess(
                self.method,
                *self.trial,
                batch_size=self.batch_size,
                seed=self.seed,
                precision=PRECISION,
                transport=transport,
                report=complaints.append,
            )
            for _ in range(self.rounds):
                network.step()
            return Wired(
                to_host(network.hub),
                [to_host(site.state) for site in network.sites],
                network.bytes_down,
                network.bytes_up,
                posts[0].down,
                posts[0].up,
                complaints,
            )

    def federation(self) -> Federation:
        """Problem and clients brought together, for laws that play rounds by themselves."""
        return assemble(*self.trial, self.batch_size, PRECISION)

    def client_state(self, result: Result, i: int) -> Tree:
        """The state of a client, from that of its group."""
        for members, states in zip(self.trial.groups(), result.state.clients, strict=True):
            if i in members:
                return jax.tree.map(lambda leaf: leaf[members.index(i)], states)  # noqa: B023
        raise LookupError(f"client {i} is in no group")

    def described(self) -> str:
        """How large it is, in words."""
        clients = self.trial.clients
        rounds = f"{self.rounds} round{'s' if self.rounds > 1 else ''}"
        if isinstance(clients, Parties):
            return f"{rounds}, {clients.rows} rows, parties with {list(clients.widths)} columns"
        d = " x ".join(map(str, clients.train.x.shape[1:]))
        return f"{rounds}, clients with {clients.sizes.tolist()} rows of {d} features"


class _Weighing(Local):
    """Hands letters over, and weighs the arrays in them."""

    down = up = 0

    def send(self, letters: Mapping[int, Letter]) -> Mapping[int, bytes | Lost]:
        answers = super().send(letters)
        self.down += sum(_payload(letter.body) for letter in letters.values())
        self.up += sum(_payload(a) for a in answers.values() if isinstance(a, bytes))
        return answers


def _payload(data: bytes) -> int:
    """The bytes of a message's arrays: all but the header, whose length stands first."""
    return len(data) - 8 - int.from_bytes(data[:8], "little")
