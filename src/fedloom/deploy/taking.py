"""From the result of a run to models on their own: the hub's, and those of clients."""

from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom import draws
from fedloom.data.clients import Clients
from fedloom.data.normalising import Normalisation
from fedloom.deploy.deployed import Deployed
from fedloom.deploy.networks import link_of, network_of
from fedloom.errors import DataError
from fedloom.measuring.earlier import state_of
from fedloom.measuring.result import Result
from fedloom.oracles import AnyOracle
from fedloom.parameters import Rule, check
from fedloom.population import assemble
from fedloom.preparation import Preparation
from fedloom.problems.base import Problem
from fedloom.protocol import Algorithm
from fedloom.pytrees import plain
from fedloom.rounds import program
from fedloom.rounds.parts import Plan
from fedloom.types import Array, Tree


def take(
    algorithm: Algorithm,
    problem: Problem,
    clients: Clients,
    result: Result,
    client: int | None = None,
) -> Deployed:
    """The hub's model after a run, or the model that one client would use.

    Args:
        algorithm: The method that was run.
        problem: The problem: linear, or with a network.
        clients: The clients of the run.
        result: The result of the run, fresh or loaded.
        client: The number of the client, from 0; None: the hub's model.
    """
    if client is None:
        return hub_model(problem, result.model, *_rows_of(clients))
    client = plain(client)
    there = Rule(
        lambda v: type(v) is int and 0 <= v < len(clients),
        f"a whole number from 0 to {len(clients) - 1}",
        0,
    )
    check("take", "client", client, there)
    return _taken(algorithm, problem, clients, result, [client])[client]


def take_all(
    algorithm: Algorithm, problem: Problem, clients: Clients, result: Result
) -> list[Deployed]:
    """The models that all clients would use after a run, in the order of the clients.

    Args:
        algorithm: The method that was run.
        problem: The problem: linear, or with a network.
        clients: The clients of the run.
        result: The result of the run, fresh or loaded.
    """
    everyone = range(len(clients))
    taken = _taken(algorithm, problem, clients, result, everyone)
    return [taken[client] for client in everyone]


def hub_model(
    problem: Problem,
    model: Tree,
    features: tuple[int, ...],
    labels: Any,
    preparation: Preparation | None = None,
    normalisation: Normalisation | None = None,
) -> Deployed:
    """A model on its own, made from its arrays.

    Args:
        problem: The problem: linear, or with a network.
        model: The arrays, as in `Result.model`.
        features: The shape of one row.
        labels: The names of the classes; None: a regression.
        preparation: How tables become rows; None if the data were not tables.
        normalisation: How rows were normalised; None if they were not.
    """
    if problem.kind == "vertical":
        raise DataError(
            "a vertical model lies with its parties, a share with each. Use fl.save_shares and "
            "fl.joint_predict."
        )
    wide = str(jax.tree.leaves(model)[0].dtype) == "float64"
    with jax.enable_x64(wide):
        network, arrays = network_of(problem, model)
        arrays = jax.tree.map(np.asarray, arrays)
    names = () if labels is None else tuple(map(str, labels))
    link = link_of(problem)
    return Deployed(network, arrays, tuple(features), names, link, preparation, normalisation)


def _rows_of(
    clients: Clients,
) -> tuple[tuple[int, ...], Any, Preparation | None, Normalisation | None]:
    """What a model says of the rows of clients: shape, labels, and how they were made."""
    shape = clients.train.x.shape[1:]
    return shape, clients.labels, clients.preparation, clients.normalisation


def _taken(
    algorithm: Algorithm,
    problem: Problem,
    clients: Clients,
    result: Result,
    wanted: Collection[int],
) -> dict[int, Deployed]:
    precision = str(jax.tree.leaves(result.model)[0].dtype)
    taken = {}
    with jax.enable_x64(precision == "float64"):
        federation = assemble(problem, clients, None, precision)
        root, plan = draws.key(0), Plan(None, None)
        like = jax.eval_shape(lambda: program.opening(algorithm, federation, root, plan)[:2])
        given = {"algorithm": repr(algorithm), "problem": repr(problem), "clients": len(clients)}
        kept = state_of("take: result", result, given, *like)
        vector = algorithm.model(kept.hub, federation.fed)
        for group, state in zip(federation.groups, kept.clients, strict=True):
            members = range(len(clients)) if group.members is None else group.members
            for place, client in enumerate(members):
                if client not in wanted:
                    continue
                own = jax.tree.map(lambda leaf: jnp.asarray(leaf[place]), state)  # noqa: B023
                taken[client] = taken_at(
                    algorithm,
                    group.objective(place),
                    vector,
                    own,
                    *_rows_of(clients),
                )
    return taken


def taken_at(
    algorithm: Algorithm,
    f: AnyOracle,
    model: Array,
    state: Tree,
    features: tuple[int, ...],
    labels: Any,
    preparation: Preparation | None = None,
    normalisation: Normalisation | None = None,
) -> Deployed:
    """The model that a client deploys, from the hub's model and its own state."""
    seen = f.own if algorithm.personal_models else f
    arrays = seen.layout.unravel(algorithm.deployed(model, state, f))
    return hub_model(seen.problem, arrays, features, labels, preparation, normalisation)
