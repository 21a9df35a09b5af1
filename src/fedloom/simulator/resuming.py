"""What may change when a run is resumed, and what it records about the earlier rounds."""

from collections.abc import Sequence
from typing import Any

from fedloom.algorithms.wrappers.private import private_layer
from fedloom.data.parties import Holders
from fedloom.errors import ParameterError
from fedloom.measuring.result import Result
from fedloom.protocol import Algorithm

# What the record names for the earlier rounds too, if it changes.
_SAID = ("algorithm", "problem", "batch_size", "seed")
_SHOWN = 4  # names of clients in a message


def check(earlier: Result, algorithm: Algorithm, clients: Holders, rounds: int) -> None:
    """Refuse fewer rounds than done, other clients, and another method where one is private."""
    done = int(earlier.state.round)
    if rounds < done:
        raise ParameterError(
            f"simulate: rounds must be at least the {done} that the resumed result has; got "
            f"{rounds}. Give the number of rounds in all."
        )
    if list(earlier.client_names) != list(clients.names):
        raise ParameterError(
            f"simulate: resume must go on with the same clients, because what it holds is theirs; "
            f"the result is of {_told(earlier.client_names)}, and here are {_told(clients.names)}. "
            f"Pass the clients of that run, or start anew."
        )
    was, now = earlier.about.get("algorithm"), repr(algorithm)
    private = private_layer(algorithm) is not None or "privacy" in earlier.about
    if private and was != now:
        raise ParameterError(
            f"simulate: resume must go on with the same method where one is private, since epsilon "
            f"counts every round; the result is of {was}, and algorithm is {now}. Start anew."
        )


def _told(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"{len(names)}: {shown}{', ...' if len(names) > _SHOWN else ''}"


def before(earlier: Result, about: dict[str, Any]) -> dict[str, Any]:
    """Which method, problem, batches and seed the earlier rounds had, if not those of this run."""
    then = {name: earlier.about.get(name) for name in _SAID}
    known = list(earlier.about.get("before", []))
    if then != {name: about[name] for name in _SAID}:
        known.append({"until round": int(earlier.state.round), **then})
    return {"before": known} if known else {}
