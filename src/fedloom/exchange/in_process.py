"""A federation inside one process, in which only bytes pass between hub and clients.

Every client is a `Site` with its own data, unpadded, and its own state. A message is encoded,
decoded at the site, answered, and the reply comes back as bytes. It is the simulator's twin: the
same seed gives the same trajectory to rounding. A network engine replaces nothing but the way in
which the bytes travel.
"""

from collections.abc import Callable, Mapping

from fedloom.data.parties import Holders
from fedloom.errors import FedloomError, StaleStateError
from fedloom.exchange.expected import expected_exchanges
from fedloom.exchange.hub import Hub, Letter, Lost, Transport
from fedloom.exchange.site import Site
from fedloom.population import alone, assemble, know
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.types import Tree


class Local:
    """Letters that are handed over by a call."""

    def __init__(self, sites: list[Site]):
        self.sites = sites

    def send(self, letters: Mapping[int, Letter]) -> Mapping[int, bytes | Lost]:
        """Let each site answer, one after the other."""
        return {id: self._answer(id, letter) for id, letter in letters.items()}

    def _answer(self, id: int, letter: Letter) -> bytes | Lost:
        try:
            return self.sites[id].reply_to(letter)
        except FedloomError as error:
            return Lost(str(error), stale=isinstance(error, StaleStateError))


class InProcess:
    """The hub, and a site for each client."""

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        clients: Holders,
        *,
        batch_size: int | None,
        seed: int = 0,
        precision: str = "float32",
        transport: Callable[[list[Site]], Transport] = Local,
        report: Callable[[str], None] = lambda text: None,
    ):
        expected = expected_exchanges(algorithm, assemble(problem, clients, batch_size, precision))
        self.sites = [
            Site(i, algorithm, group, expected, seed=seed)
            for i, group in enumerate(alone(problem, clients, batch_size, precision))
        ]
        self._hub = Hub(
            algorithm,
            know(problem, clients, precision, batch_size),
            expected,
            transport(self.sites),
            names=clients.names,
            seed=seed,
            report=report,
        )
        self._hub.open()

    def step(self) -> Tree:
        """One round; returns the method's diagnostics."""
        return self._hub.step()

    @property
    def hub(self) -> Tree:
        """The hub's state."""
        return self._hub.state

    @hub.setter
    def hub(self, state: Tree) -> None:
        """Go on from another state."""
        self._hub.state = state

    @property
    def bytes_down(self) -> int:
        """What the hub has sent."""
        return self._hub.bytes_down

    @property
    def bytes_up(self) -> int:
        """What the clients have sent."""
        return self._hub.bytes_up
