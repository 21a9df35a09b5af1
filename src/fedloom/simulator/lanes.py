"""How many clients an accelerator computes side by side: as many as fit into its memory.

What a program needs is known once it is compiled. One that would not fit is compiled again for
fewer clients at a time. Where memory runs out all the same, half as many go on.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

from fedloom.exchange.expected import expected_exchanges
from fedloom.protocol import Algorithm
from fedloom.pytrees import payload_bytes
from fedloom.rounds.parts import Plan
from fedloom.simulator import hosts
from fedloom.types import Array

if TYPE_CHECKING:
    from fedloom.simulator.task import Task

_SPARE = 0.9  # of the free memory, for what the compiler does not count


def fitted(task: "Task", algorithm: Algorithm, root: Array, free: int) -> Plan:
    """The task's plan with as many lanes as fit into the free bytes; tells the user if not all."""
    hub, clients, _ = task.opening.eval_shape(algorithm, task.federation, root, plan=task.plan)
    count = jax.ShapeDtypeStruct((), "int32")
    programs: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (task.opening, (root,), {}),
        (task.rounds_for(payload_bytes((hub, clients))), (hub, clients, root, count, count), {}),
        (task.measure, (hub, clients), {"wanted": task.wanted}),
    ]

    def needed(lanes: int) -> int:
        plan = task.plan._replace(lanes=lanes)
        return max(
            memory_of(program, algorithm, task.federation, *given, plan=plan, **named)
            for program, given, named in programs
        )

    said = expected_exchanges(algorithm, task.federation)
    asked = [exchange.clients for stage in said.values() for exchange in stage]
    most = max([*asked, 1])
    lanes = as_many_as_fit(needed, most, int(_SPARE * (free - payload_bytes((hub, clients)))))
    if lanes < most:
        tell(lanes, most)
    elif most >= max(group.size for group in task.federation.groups):
        return task.plan  # evaluations and first states, which are of all clients, fit too
    return task.plan._replace(lanes=lanes)


def as_many_as_fit(needed: Callable[[int], int], most: int, free: int) -> int:
    """The lanes, from `most` downwards, whose program needs no more than what is free; at least 1.

    Args:
        needed: The bytes that a program of so many lanes needs.
        most: How many clients there are to be computed.
        free: The bytes that there are.
    """
    lanes = most
    while lanes > 1 and (bytes_needed := needed(lanes)) > free:
        # Memory grows with the lanes, so this is about how many would do.
        lanes = even(most, min(lanes - 1, max(1, lanes * free // bytes_needed)))
    return lanes


def even(most: int, lanes: int) -> int:
    """The largest divisor of `most` up to `lanes`; `lanes` itself if the divisor is much smaller.

    A remainder would need a program of its own.
    """
    divisors = [n for n in range(1, lanes + 1) if most % n == 0]
    return divisors[-1] if 2 * divisors[-1] > lanes else lanes


def memory_of(program: Callable[..., Any], *args: Any, **named: Any) -> int:
    """The bytes that a compiled program needs beside its arguments."""
    stats = program.lower(*args, **named).compile().memory_analysis()  # type: ignore[attr-defined]
    needs: int = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    return needs


def halved(plan: Plan, most: int, error: Exception) -> Plan:
    """The plan with half as many lanes, after memory ran out; any other error is raised.

    In a run of several processes it is raised too: the others may have had enough memory.
    """
    lanes = min(plan.lanes or most, most)
    if not is_out_of_memory(error) or lanes == 1 or hosts.several():
        raise error
    tell(lanes // 2, most)
    return plan._replace(lanes=lanes // 2)


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device has not enough memory, by the name that JAX has for it."""
    return "RESOURCE_EXHAUSTED" in str(error)


def tell(lanes: int, most: int) -> None:
    """Tell the user that not all clients of a cohort are computed side by side."""
    if not hosts.leads():
        return
    print(
        f"{lanes} of {most} clients are computed side by side: more do not fit into the device's "
        f"memory (lanes = {lanes} sets it)",
        file=sys.stderr,
    )
