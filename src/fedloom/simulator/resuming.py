"""What may change when a run is resumed, and what it records about the earlier rounds."""

from typing import Any

from fedloom.algorithms.wrappers.private import private_layer
from fedloom.errors import ParameterError
from fedloom.measuring.result import Result
from fedloom.protocol import Algorithm

_SAID = ("algorithm", "seed")  # what the record names for the earlier rounds too, if it changes


def check(earlier: Result, algorithm: Algorithm, rounds: int) -> None:
    """Refuse fewer rounds than were done, and another method if one of the two is private."""
    done = int(earlier.state.round)
    if rounds < done:
        raise ParameterError(
            f"simulate: rounds must be at least the {done} that the resumed result has; got "
            f"{rounds}. Give the number of rounds in all."
        )
    was, now = earlier.about.get("algorithm"), repr(algorithm)
    private = private_layer(algorithm) is not None or "privacy" in earlier.about
    if private and was != now:
        raise ParameterError(
            f"simulate: resume must go on with the same method where one is private, since epsilon "
            f"counts every round; the result is of {was}, and algorithm is {now}. Start anew."
        )


def before(earlier: Result, about: dict[str, Any]) -> dict[str, Any]:
    """Which method and seed computed the earlier rounds, where they are not those of this run."""
    then = {name: earlier.about.get(name) for name in _SAID}
    known = list(earlier.about.get("before", []))
    if then != {name: about[name] for name in _SAID}:
        known.append({"until round": int(earlier.state.round), **then})
    return {"before": known} if known else {}
