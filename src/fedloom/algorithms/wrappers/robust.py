"""Robust aggregation: means of replies that a few malicious clients cannot move at will.

    hub        every mean that the method takes of its replies becomes A(replies)

A is one of `fedloom.operators.aggregators`. It sees the whole reply of a client as one vector,
because a client is honest or not in all that it sends: where distances matter (Krum, the geometric
median, clipping), a part of a reply with large numbers counts for more than one with small numbers.

What the method gets:

    mean()         A, all clients counting alike
    average(a)     A by the weights a
    estimate(a)    (n / |S|) (sum_S a_i / sum a) A by the weights a
    sum(a)         (sum_S a_i) A by the weights a; but where clients keep state and a are the
                   problem's weights: sum a (A(R) - A(R before)), with R_i the sum of all that
                   client i has ever replied

The last is for hubs that add up changes of what clients keep (the controls of SCAFFOLD, Scaffnew
and CODASCA, the means of FedDyn, FedCanon, FedDR and FedADMM). What they add up is then A of what
clients keep. An A of changes would differ from their mean a little in every round, and the
differences would add up. R is a part of the hub's state, n times as long as a reply, and each array
of it is aggregated by itself.

`map` comes before the aggregate, as it comes before a mean. Single replies are not shown: a method
whose hub looks at them is refused when it is traced, for whatever it did with them would not be
robust. A reply with a number that is not finite is dropped, as on a network. A client that occurs
k times in a cohort is one reply of k times the weight.

What is lost. A is not the mean, and is biased where honest clients differ.

Not with secure aggregation: the hub would have to see single replies, and sees sums only.
"""

from typing import Any, NamedTuple

from fedloom.algorithms.wrappers.aggregated import Aggregated, totals_of
from fedloom.algorithms.wrappers.base import Wrapper, check_horizontal, layers
from fedloom.errors import ParameterError, ProtocolError
from fedloom.operators.aggregators import Aggregator
from fedloom.parameters import instance_of, param
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Ask, Replies, Round, algorithm, relay
from fedloom.types import Array, Tree


class AggregatedHub(NamedTuple):
    """The inner method's state, and what clients have replied in all."""

    inner: Tree
    totals: tuple[Tree, ...]  # R for each exchange of a round; empty where no sum needs it


@algorithm
class Robust(Wrapper):
    """Robust aggregation: means that withstand malicious clients, for methods that use means."""

    inner: Algorithm = param(instance_of(Algorithm), "the method inside")
    aggregator: Aggregator = param(instance_of(Aggregator), "the aggregator that replaces means")

    def __post_init__(self) -> None:
        check_horizontal(self)
        if isinstance(self.inner, Wrapper):
            other = type(self.inner).__name__
            raise ParameterError(
                f"Robust stands next to the method, because what other wrappers do to single "
                f"replies comes first; got {other} inside it. Swap them: {other}(Robust("
                f"...)), or in a settings file put the table of Robust first."
            )

    def init_hub(self, fed: Any, key: Array, /) -> AggregatedHub:
        """The inner method's state, and totals of zero."""
        return AggregatedHub(self.inner.init_hub(fed, key), totals_of(self.inner, fed, key))

    def opening(self, hub: AggregatedHub, fed: Any, key: Array, /) -> Round:
        """The inner method's opening, with robust means."""
        steps = self.inner.opening(hub.inner, fed, key)
        inner, info, _ = yield from self._relayed(steps, fed, ())
        return AggregatedHub(inner, hub.totals), info

    def round(self, hub: AggregatedHub, fed: Any, key: Array, /) -> Round:
        """The inner method's round, with robust means."""
        steps = self.inner.round(hub.inner, fed, key)
        inner, info, totals = yield from self._relayed(steps, fed, hub.totals)
        return AggregatedHub(inner, totals), info

    def model(self, hub: AggregatedHub, fed: Any, /) -> Array:
        """The inner method's model."""
        return self.inner.model(hub.inner, fed)

    def other_models(self, hub: AggregatedHub, fed: Any, /) -> dict[str, Array]:
        """The inner method's other models."""
        return self.inner.other_models(hub.inner, fed)

    def _relayed(self, steps: Round, fed: Fed, totals: tuple[Tree, ...]) -> Any:
        """What the inner method returns, and the totals with this round's replies."""
        asked: list[str] = []
        heard: list[Aggregated] = []
        before = iter(totals)

        def outgoing(request: Ask) -> Ask:
            asked.append(request.method)
            self.aggregator.check(len(request.to))
            return request

        def incoming(replies: Replies) -> Any:
            said = (type(self.inner).__name__, asked[-1])
            heard.append(Aggregated(replies, self.aggregator, fed, said, next(before, ())))
            return heard[-1]

        hub, info = yield from relay(steps, outgoing, incoming)
        return hub, info, tuple(replies.total() for replies in heard) if totals else ()


def check_not_summed(algorithm: Algorithm) -> None:
    """Refuse a method whose replies would be summed before the hub can compare them."""
    if any(isinstance(layer, Robust) for layer in layers(algorithm)):
        raise ProtocolError(
            "robust aggregation compares single replies, and with secure aggregation the hub "
            "learns nothing but their sum, in which a false reply cannot be told from the others. "
            "Take away the wrapper of kind 'robust', or set secure_aggregation = false."
        )
