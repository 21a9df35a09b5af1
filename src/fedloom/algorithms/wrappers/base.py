"""The base of wrappers: they hold an inner method, and pass on to it what they do not change."""

from collections.abc import Iterator

from fedloom.errors import ParameterError
from fedloom.oracles import ClientOracle
from fedloom.population import Fed
from fedloom.protocol import Algorithm, Round, relay
from fedloom.types import Array, Tree


class Wrapper(Algorithm):
    """An algorithm around another one; a subclass changes what passes between hub and clients."""

    inner: Algorithm

    @property
    def takes(self) -> str:  # type: ignore[override]
        """The kind of problem of the inner method."""
        return self.inner.takes

    @property
    def dual(self) -> str:  # type: ignore[override]
        """Whose dual the inner method has in a saddle problem."""
        return self.inner.dual

    @property
    def personal_models(self) -> bool:  # type: ignore[override]
        """Whether clients of the inner method deploy networks of their own."""
        return self.inner.personal_models

    @property
    def needs_everyone(self) -> bool:  # type: ignore[override]
        """Whether a round of the inner method needs a reply of every client."""
        return self.inner.needs_everyone

    @property
    def takes_regulariser(self) -> bool:  # type: ignore[override]
        """Whether the inner method uses the regulariser g."""
        return self.inner.takes_regulariser

    @property
    def takes_constraint(self) -> bool:  # type: ignore[override]
        """Whether the inner method can use a g that is a constraint."""
        return self.inner.takes_constraint

    @property
    def takes_fusion(self) -> bool:  # type: ignore[override]
        """Whether the inner method trains a network at the label party."""
        return self.inner.takes_fusion

    @property
    def tells_labels(self) -> bool:  # type: ignore[override]
        """Whether the inner method sends labels to other parties."""
        return self.inner.tells_labels

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """Whether the inner method refuses messages that are not finite."""
        return self.inner.finite

    def init_hub(self, fed: Fed, key: Array, /) -> Tree:
        """The inner method's state."""
        return self.inner.init_hub(fed, key)

    def init_client(self, f: ClientOracle, key: Array, /) -> Tree:
        """The inner method's state."""
        return self.inner.init_client(f, key)

    def opening(self, hub: Tree, fed: Fed, key: Array, /) -> Round:
        """The inner method's opening."""
        return (yield from relay(self.inner.opening(hub, fed, key)))

    def model(self, hub: Tree, fed: Fed, /) -> Array:
        """The inner method's model."""
        return self.inner.model(hub, fed)

    def other_models(self, hub: Tree, fed: Fed, /) -> dict[str, Array]:
        """The inner method's other models."""
        return self.inner.other_models(hub, fed)

    def deployed(self, model: Array, client: Tree, f: ClientOracle, /) -> Array:
        """What a client of the inner method would use."""
        return self.inner.deployed(model, client, f)

    def perform(
        self, method: str, client: Tree, message: Tree, f: ClientOracle, key: Array, /
    ) -> tuple[Tree, Tree]:
        """The inner method's work at a client."""
        return self.inner.perform(method, client, message, f, key)

    def client_methods(self) -> tuple[str, ...]:
        """The names that the inner method asks for."""
        return self.inner.client_methods()


def check_horizontal(wrapper: Wrapper) -> None:
    """Refuse vertical methods, which need the exact reply of every party."""
    if wrapper.inner.needs_everyone:
        raise ParameterError(
            f"{type(wrapper).__name__} is for horizontal methods, and "
            f"{type(wrapper.inner).__name__} is a vertical one, which needs the exact reply of "
            f"every party. Choose a method of another family."
        )


def layers(algorithm: Algorithm) -> Iterator[Algorithm]:
    """A method and what it wraps, from the outside in."""
    yield algorithm
    while isinstance(algorithm, Wrapper):
        algorithm = algorithm.inner
        yield algorithm


def innermost(algorithm: Algorithm) -> Algorithm:
    """The method inside all wrappers."""
    return list(layers(algorithm))[-1]


def makes_personal(algorithm: Algorithm) -> bool:
    """Whether clients use other models than the hub's."""
    return type(innermost(algorithm)).deployed is not Algorithm.deployed
