"""One definition, two engines: the same trajectory to rounding, and the same bytes."""

from fedloom.checking.case import Case
from fedloom.checking.verdicts import BrokenLawError, Difference, close

_ROUNDING = (1e-12, 1e-12)


def agree(case: Case) -> str:
    """On the simulator and over bytes, the states of hub and clients are the same to rounding."""
    simulated, wired = case.result, case.wired
    if wired.complaints:
        raise BrokenLawError(f"over bytes, replies are lost: {wired.complaints[0]}")
    pairs = {"hub": (simulated.state.hub, wired.hub)}
    for i, state in enumerate(wired.clients):
        pairs[f"client {i}"] = (case.client_state(simulated, i), state)
    for who, (expected, got) in pairs.items():
        close(
            "the simulator (expected) and the wire engine (got) end in different states",
            expected,
            got,
            tolerance=_ROUNDING,
            root=who,
            where=f"round {case.rounds}",
        )
    return f"{case.rounds} rounds, to {_ROUNDING[0]:g}"


def bytes_are_true(case: Case) -> str:
    """What both engines count is what the arrays in the messages take."""
    simulated, wired = case.result, case.wired
    for way in ("down", "up"):
        sent = getattr(wired, f"sent_{way}")
        counts = {
            "the simulator": simulated.about[f"bytes_{way}"],
            "the hub": getattr(wired, f"counted_{way}"),
        }
        for who, counted in counts.items():
            if counted != sent:
                raise BrokenLawError(
                    f"{who} counts other bytes than are sent. A cohort that may name a client "
                    f"twice must say so, with repeats=True",
                    Difference(f"bytes {way}", sent, counted, f"after {case.rounds} rounds"),
                )
    return f"{wired.sent_down} bytes down, {wired.sent_up} up"
