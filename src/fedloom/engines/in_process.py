"""A federation inside one process, in which only bytes pass between hub and clients.

Every client is a `Site` with its own data, unpadded, and its own state. A message is encoded,
decoded at the site, answered, and the reply comes back as bytes. It is the simulator's twin: the
same seed gives the same trajectory to rounding. A network engine replaces nothing but the way in
which the bytes travel.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.data.parties import Holders
from fedloom.engines import keys, wire
from fedloom.federation import Fed, Group, alone, know
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm, Ask, Cohort, Replies, payload_bytes

Array = Any
Tree = Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Ended:
    """A round came to its end."""

    hub: Tree
    info: Tree


@functools.partial(jax.jit, static_argnames="stage")
def next_step(
    algorithm: Algorithm, hub: Tree, fed: Fed, key: Array, answers: tuple[Replies, ...], stage: str
) -> Ask | Ended:
    """What the hub does after these answers: the next ask, or the end.

    A generator cannot be kept between compiled programs, so each step replays the hub's code from
    the start of the round, which is cheap, and the outcome is the same as in the simulator.
    """
    steps = getattr(algorithm, stage)(hub, fed, key)
    try:
        request = next(steps)
        for replies in answers:
            request = steps.send(replies)
    except StopIteration as end:
        return Ended(*end.value)
    return request


@jax.jit
def _first_client(algorithm: Algorithm, group: Group, key: Array) -> Tree:
    return algorithm.init_client(group.objective(0), key)


@functools.partial(jax.jit, static_argnames="method")
def _perform(
    algorithm: Algorithm, group: Group, state: Tree, message: Tree, key: Array, method: str
) -> tuple[Tree, Tree]:
    return algorithm.perform(method, state, message, group.objective(0), key)


class Site:
    """A client: its data and its state, reachable by bytes only."""

    def __init__(self, id: int, algorithm: Algorithm, group: Group, seed: int):
        self.id = id
        self.algorithm = algorithm
        self.group = group
        self.root = keys.root(seed)
        self.state = _first_client(algorithm, group, keys.first_client(self.root, id))

    def reply_to(self, method: str, message: bytes, like: Tree, round: int, exchange: int) -> bytes:
        """Answer one ask; the state moves on."""
        key = keys.client(self.root, round, exchange, self.id)
        arrays = wire.decode(message, like)
        self.state, reply = _perform(
            self.algorithm, self.group, self.state, arrays, key, method=method
        )
        return wire.encode(reply)

    def shape_of_reply(self, method: str, like: Tree) -> Tree:
        """The structure of what `reply_to` returns, by which the hub checks what it gets."""
        run = functools.partial(_perform, method=method)
        return jax.eval_shape(run, self.algorithm, self.group, self.state, like, self.root)[1]


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
    ):
        self.algorithm = algorithm
        self.fed = know(problem, clients, precision)
        self.sites = [
            Site(i, algorithm, group, seed)
            for i, group in enumerate(alone(problem, clients, batch_size, precision))
        ]
        self.root = keys.root(seed)
        self.hub = algorithm.init_hub(self.fed, keys.first_hub(self.root))
        self.round = self.bytes_down = self.bytes_up = 0
        self._reply_shapes: dict[str, Tree] = {}
        self._play("opening")

    def step(self) -> Tree:
        """One round; returns what the method shows for the eye."""
        self.round += 1
        return self._play("round")

    def _play(self, stage: str) -> Tree:
        key = keys.hub(self.root, self.round)
        answers: tuple[Replies, ...] = ()
        while True:
            step = next_step(self.algorithm, self.hub, self.fed, key, answers, stage=stage)
            if isinstance(step, Ended):
                self.hub = step.hub
                return step.info
            answers = (*answers, self._exchange(step, len(answers) + 1))

    def _exchange(self, request: Ask, exchange: int) -> Replies:
        """Send the message to every client of the cohort that is present; stack what comes back."""
        ids = np.asarray(request.to.ids)
        present = np.asarray(request.to.present) & bool(request.when)
        like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), request.message)
        if request.method not in self._reply_shapes:
            site = self.sites[ids[0]]
            self._reply_shapes[request.method] = site.shape_of_reply(request.method, like)
        shape = self._reply_shapes[request.method]
        message = wire.encode(request.message)
        replies: dict[int, Tree] = {}
        for id in np.unique(ids[present]).tolist():
            data = self.sites[id].reply_to(request.method, message, like, self.round, exchange)
            replies[id] = wire.decode(data, shape)
        self.bytes_down += len(replies) * payload_bytes(like)
        self.bytes_up += len(replies) * payload_bytes(shape)
        nothing = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shape)
        slots = [replies[id] if there else nothing for id, there in zip(ids, present, strict=True)]
        value = jax.tree.map(lambda *rows: jnp.asarray(np.stack(rows)), *slots)
        return Replies(value, Cohort(jnp.asarray(ids), jnp.asarray(present), request.to.repeats))
