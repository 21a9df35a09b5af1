"""The privacy loss of a run: epsilon at the method's delta, from how clients were really sampled.

Every exchange of the opening and of each round that carries a reply is a Gaussian mechanism (see
`fedloom.algorithms.wrappers.private` for what is promised). Which exchanges there are, and whom
they go to, is read off the method itself by abstract evaluation. The composition is that of
Google's dp-accounting in Rényi divergence, under replacement of one client:

- noise at the hub, a cohort of m of n drawn uniformly: sampling without replacement, or no credit
  for sampling where that bound is the smaller one; such exchanges of one round are one sample, with
  the largest m, as their cohorts may be the same, and who is drawn is then in all of them;
- noise at the hub, any other cohort, or one that others can draw as well: no credit for sampling;
- noise at the clients: no credit for sampling, as the hub sees each reply, and as if the client
  took part in every exchange.

A conditional exchange counts as if it always took place. All of these bound the loss from above.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedloom.algorithms.wrappers.private import Private, private_layer
from fedloom.exchange.transcript import Exchange, transcript
from fedloom.hints import needs
from fedloom.population import Federation
from fedloom.protocol import Algorithm

_SENSITIVITY = 2  # in units of clip: a replaced reply may point the other way
_MOST_NOISE = 1e100  # the library squares it; more of it would lose less, so the bound holds


def ledger(
    algorithm: Algorithm, federation: Federation, *, hidden: bool = True
) -> Callable[[int], dict[str, float]]:
    """A function from the number of rounds to {"epsilon": ...}, or to {} without privacy.

    Args:
        algorithm: The method with its wrappers.
        federation: The federation; its rows may be mere shapes.
        hidden: Whether nobody learns who is drawn. Over a network all sites know the seed by which
            cohorts are drawn, and nobody is hidden by a sample.
    """
    layer = private_layer(algorithm)
    if layer is None:
        return lambda rounds: {}
    needs("dp_accounting", "privacy")
    from dp_accounting import rdp

    if layer.noise == 0:
        return lambda rounds: {"epsilon": math.inf}
    opening, each_round = (
        _divergences(layer, transcript(algorithm, federation, stage), federation.fed.n, hidden)
        for stage in ("opening", "round")
    )
    orders = _accountant().orders

    def spent(rounds: int) -> dict[str, float]:
        epsilon, _ = rdp.compute_epsilon(orders, opening + rounds * each_round, layer.delta)
        return {"epsilon": float(epsilon)}

    return spent


def of_sites(
    algorithm: Algorithm, federation: Federation, noises: Mapping[str, tuple[float, float]]
) -> Callable[[int], dict[str, float]]:
    """As `ledger`, if sites add noise by their policies: the largest loss of any of them.

    `noises` has for each such site the standard deviation in units of its clip, and its delta. Each
    is counted as if it took part in every exchange.
    """
    if not noises:
        return lambda rounds: {}
    opening, each_round = (
        sum(bool(exchange.up) for exchange in transcript(algorithm, federation, stage))
        for stage in ("opening", "round")
    )

    def spent(rounds: int) -> dict[str, float]:
        replies = opening + rounds * each_round
        losses = (gaussian_epsilon({n: replies}, delta) for n, delta in set(noises.values()))
        return {"epsilon": max(losses)}

    return spent


def gaussian_epsilon(replies: Mapping[float, int], delta: float) -> float:
    """The loss of so many replies with Gaussian noise, by its deviation in units of the clip."""
    needs("dp_accounting", "privacy")

    if not any(replies.values()):
        return 0.0
    accountant = _accountant()
    for noise, count in replies.items():
        accountant.compose(_reply(noise), count)
    return float(accountant.get_epsilon(delta))


def statement(
    algorithm: Algorithm, noises: Mapping[str, tuple[float, float]] | None = None
) -> dict[str, Any]:
    """What is promised, in words and numbers, for the record of a run."""
    layer = private_layer(algorithm)
    if layer is not None:
        whom = {
            "hub": "central: the hub is trusted, what it publishes is private",
            "client": "local: replies are private before they leave a client",
        }
        numbers = {"clip": float(layer.clip), "noise": float(layer.noise)}
        said: dict[str, Any] = {"kind": whom[layer.at], "delta": float(layer.delta), **numbers}
    elif noises:
        said = {
            "kind": "local: sites add noise by policies of their own",
            "delta": max(delta for _, delta in noises.values()),
            "noise": {name: noise for name, (noise, _) in noises.items()},
        }
    else:
        return {}
    said["neighbours"] = "the rows of one client replaced by any others"
    said["not covered"] = "metrics, and the counts and sums by which tables were prepared"
    return {"privacy": said}


def _reply(noise: float) -> Any:
    """A reply with so much noise, in units of its clip."""
    import dp_accounting as dp

    return dp.GaussianDpEvent(min(noise, _MOST_NOISE) / _SENSITIVITY)


def _accountant() -> Any:
    from dp_accounting import NeighboringRelation, rdp

    return rdp.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)


def _divergences(layer: Private, exchanges: list[Exchange], n: int, hidden: bool) -> np.ndarray:
    """The Rényi divergences of these exchanges together, one for each order."""
    import dp_accounting as dp

    def divergences(event: Any) -> np.ndarray:
        return np.asarray(_accountant().compose(event).rdp)

    noise = _reply(float(layer.noise))
    uncredited = divergences(noise)
    replied = [exchange for exchange in exchanges if exchange.up]
    credited = layer.at == "hub" and hidden
    drawn = [exchange.clients for exchange in replied if credited and exchange.uniform]
    total = (len(replied) - len(drawn)) * uncredited
    if drawn:
        together = dp.SelfComposedDpEvent(noise, len(drawn))
        sampled = divergences(dp.SampledWithoutReplacementDpEvent(n, max(drawn), together))
        # The bound for samples is weak where most of the clients are drawn.
        total = total + np.minimum(sampled, len(drawn) * uncredited)
    return total
