"""The protocol carries what the five families need, without a special case.

Sketches in the smallest form that still shows the point: two exchanges with repeats (DRFA),
unequal parties with a coin (EGVFL), client state with absent clients (FFMDR), clients of different
shapes (QuPeD), and messages of their own (split training). Each runs on both engines.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.cohorts import bernoulli, by_weight, everyone, uniform
from fedloom.data.clients import from_arrays
from fedloom.errors import ProtocolError
from fedloom.exchange.in_process import InProcess
from fedloom.operators.proximal import project_simplex
from fedloom.parameters import parametrised
from fedloom.population import assemble
from fedloom.protocol import Algorithm, algorithm, ask, relay
from papers.reference import LogisticClients

PARTS = LogisticClients().parts()
CLIENTS = from_arrays(PARTS)


class WeightedHub(NamedTuple):
    model: jax.Array
    weights: jax.Array


@algorithm
class TwoExchanges(Algorithm):
    """DRFA in small: train by weight with repeats, then probe a uniform cohort."""

    lr: float

    def init_hub(self, fed, key, /):
        return WeightedHub(fed.init_model(key), jnp.full(fed.n, 1 / fed.n))

    def round(self, hub, fed, key, /):
        k1, k2 = jax.random.split(key)
        change = (yield ask(self.train, hub.model, to=by_weight(k1, hub.weights, 3))).mean()
        model = hub.model + change
        losses = yield ask(self.probe, model, to=uniform(k2, fed.n, 2))
        weights = project_simplex(hub.weights + 0.1 * fed.n / 2 * losses.scatter(fed.n))
        return WeightedHub(model, weights), weights

    def train(self, client, model, f, key, /):
        return client, -self.lr * f.grad(model, key)

    def probe(self, client, model, f, key, /):
        return client, f.value(model, key)


class Kept(NamedTuple):
    last: jax.Array


@algorithm
class AbsentClientsCount(Algorithm):
    """FFMDR in small: every client's last word stays in the mean while it is away."""

    lr: float

    def init_hub(self, fed, key, /):
        return WeightedHub(fed.init_model(key), jnp.zeros(()))

    def init_client(self, f, key, /):
        return Kept(f.zeros())

    def round(self, hub, fed, key, /):
        coin = jax.random.bernoulli(key, 0.5)
        changes = yield ask(self.renew, hub.model, to=bernoulli(key, 0.5, fed.n))
        extra = yield ask(self.renew, hub.model, to=everyone(fed.n), when=coin)
        model = hub.model + changes.sum() / fed.n + extra.sum() / fed.n
        return WeightedHub(model, hub.weights + coin), ()

    def renew(self, client, model, f, key, /):
        fresh = -self.lr * f.grad(model, key)
        return Kept(fresh), fresh - client.last


@parametrised
class Scaled(fl.problems.Logistic):
    """Clients 0 and 2 keep a state of another size than 1 and 3."""

    width: int = 1

    def groups(self, clients):
        return [(Scaled(width=1), (0, 2)), (Scaled(width=5), (1, 3))]


@algorithm
class UnlikeClients(Algorithm):
    """QuPeD in small: own state of own shape, only the common model travels."""

    lr: float
    cohort: int | None = None

    def init_hub(self, fed, key, /):
        return WeightedHub(fed.init_model(key), jnp.zeros(()))

    def init_client(self, f, key, /):
        return jnp.ones(f.problem.width)

    def round(self, hub, fed, key, /):
        replies = yield ask(self.train, hub.model, to=uniform(key, fed.n, self.cohort))
        return WeightedHub(hub.model + replies.mean(), hub.weights), ()

    def train(self, own, model, f, key, /):
        own = own + jnp.arange(f.problem.width) + f.grad(model, key).sum()
        return own, -self.lr * own.mean() * f.grad(model, key)


@algorithm
class OwnMessages(Algorithm):
    """Split training in small: each client of a cohort gets a message of its own."""

    cohort: int | None = None

    def init_hub(self, fed, key, /):
        return WeightedHub(fed.init_model(key), jnp.zeros(fed.n))

    def init_client(self, f, key, /):
        return jnp.ones(f.problem.width)

    def round(self, hub, fed, key, /):
        cohort = uniform(key, fed.n, self.cohort)
        replies = yield ask(self.hear, 1 + hub.weights[cohort.ids], to=cohort, each=True)
        return hub._replace(weights=hub.weights + replies.scatter(fed.n)), ()

    def hear(self, own, message, f, key, /):
        return own * message, message * own.sum()


SKETCHES = {
    "own messages": (OwnMessages(), Scaled()),
    "own messages of some": (OwnMessages(cohort=3), Scaled()),
    "two exchanges": (TwoExchanges(0.3), fl.problems.Logistic()),
    "absent clients": (AbsentClientsCount(0.3), fl.problems.Logistic()),
    "unlike clients": (UnlikeClients(0.1), Scaled()),
    "some unlike clients": (UnlikeClients(0.1, cohort=3), Scaled()),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_both_engines_run_the_sketch_alike(name, double):
    method, problem = SKETCHES[name]
    result = fl.simulate(
        method, problem, CLIENTS, rounds=6, batch_size=4, precision="float64", eval_every=6
    )
    network = InProcess(method, problem, CLIENTS, batch_size=4, precision="float64")
    for _ in range(6):
        network.step()
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)  # noqa: E731
    jax.tree.map(close, result.state.hub, network.hub)
    assert result.final["bytes_up"] == network.bytes_up
    assert result.final["bytes_down"] == network.bytes_down
    members = [range(4)] if len(result.state.clients) == 1 else [(0, 2), (1, 3)]
    for group, states in zip(members, result.state.clients, strict=True):
        for position, i in enumerate(group):
            own = jax.tree.map(lambda leaf, k=position: leaf[k], states)
            jax.tree.map(close, own, network.sites[i].state)


def test_a_conditional_exchange_costs_nothing_when_it_does_not_take_place():
    method = AbsentClientsCount(0.3)
    result = fl.simulate(method, fl.problems.Logistic(), CLIENTS, rounds=40, batch_size=4)
    coins = int(result.state.hub.weights)
    assert 5 < coins < 35
    size = 3 * 4
    messages = result.final["bytes_up"] / size
    # 40 rounds with about 2 of 4 clients each, and `coins` rounds with all 4.
    assert 40 * 4 * 0.5 - 30 < messages - 4 * coins < 40 * 4 * 0.5 + 30


@pytest.mark.parametrize(
    ("cohort", "message", "why"),
    [
        (lambda key, n: by_weight(key, jnp.ones(n), 3), jnp.ones(3), "cannot get two messages"),
        (lambda key, n: everyone(n), jnp.ones(3), r"each of the 4 slots.*shape \(3,\)"),
    ],
)
def test_messages_of_their_own_need_a_slot_for_each_client(cohort, message, why):
    @algorithm
    class Wrong(Algorithm):
        def init_hub(self, fed, key, /):
            return WeightedHub(fed.init_model(key), jnp.zeros(()))

        def round(self, hub, fed, key, /):
            yield ask(self.work, message, to=cohort(key, fed.n), each=True)
            return hub, ()

        def work(self, client, message, f, key, /):
            return client, message

    with pytest.raises(ProtocolError, match=why):
        fl.simulate(Wrong(), fl.problems.Logistic(), CLIENTS, rounds=1)


def test_repeated_clients_must_be_stateless():
    @algorithm
    class Wrong(Algorithm):
        def init_hub(self, fed, key, /):
            return WeightedHub(fed.init_model(key), jnp.full(fed.n, 1 / fed.n))

        def init_client(self, f, key, /):
            return Kept(f.zeros())

        def round(self, hub, fed, key, /):
            yield ask(self.work, hub.model, to=by_weight(key, hub.weights, 3))
            return hub, ()

        def work(self, client, model, f, key, /):
            return client, model

    with pytest.raises(ProtocolError, match="may repeat a client, but clients keep state"):
        fl.simulate(Wrong(), fl.problems.Logistic(), CLIENTS, rounds=1)


def test_a_round_may_yield_nothing_but_asks():
    @algorithm
    class Wrong(Algorithm):
        def init_hub(self, fed, key, /):
            return WeightedHub(fed.init_model(key), jnp.zeros(()))

        def round(self, hub, fed, key, /):
            yield hub.model
            return hub, ()

    with pytest.raises(ProtocolError, match=r"may only yield ask\(\.\.\.\)"):
        fl.simulate(Wrong(), fl.problems.Logistic(), CLIENTS, rounds=1)


def test_only_client_methods_can_be_asked_for():
    method = fl.algorithms.Scaffold(lr=0.1)
    assert method.client_methods() == ("train",)
    f = assemble(fl.problems.Logistic(), CLIENTS, 4, "float32").groups[0].objective(0)
    for name in ("round", "init_client", "__class__", "missing"):
        with pytest.raises(ProtocolError, match="has no client method"):
            method.perform(name, (), (), f, jax.random.key(0))


def test_relay_changes_what_goes_out_and_what_comes_in():
    def steps():
        first = yield "a"
        second = yield "b"
        return first + second, ()

    relayed = relay(steps(), outgoing=str.upper, incoming=lambda r: r * 10)
    assert relayed.send(None) == "A"
    assert relayed.send(1) == "B"
    with pytest.raises(StopIteration) as end:
        relayed.send(2)
    assert end.value.value == (30, ())


def test_a_method_may_vary_another_and_keep_its_round():
    @algorithm
    class Shy(fl.algorithms.FedAvg):
        def train(self, client, model, f, key, /):
            client, change = super(Shy, self).train(client, model, f, key)
            return client, change / 2

    clients = fl.data.from_arrays([(np.eye(3), np.array([0, 1, 1]))] * 2)
    problem, options = fl.problems.Logistic(), {"rounds": 1, "batch_size": None}
    plain = fl.simulate(fl.algorithms.FedAvg(lr=0.1), problem, clients, **options).model
    halved = fl.simulate(Shy(lr=0.1), problem, clients, **options).model
    jax.tree.map(lambda a, b: np.testing.assert_allclose(2 * b, a, rtol=1e-6), plain, halved)
