"""How programs are compiled: the same bits from every compilation, and no needless threads.

On a GPU, XLA times several kernels for each matrix product and convolution and takes the quickest,
so that two compilations of one program may round differently, and some kernels add numbers in the
order in which threads come by. A deterministic program uses neither: the same source gives the same
bits on the same kind of device, whoever compiles it. On a CPU every program does.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax

F = TypeVar("F", bound=Callable)

# Where steps are small, XLA's splitting of every kernel over CPU threads costs more than it gains:
# with it, a round of logistic regression over twenty clients took 1.5 times as long.
_SEQUENTIAL_KERNELS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
_DETERMINISTIC = {"xla_gpu_exclude_nondeterministic_ops": True}


@functools.cache
def compiled(function: F, *static: str, small_steps: bool = False, deterministic: bool = True) -> F:
    """`function` compiled, with these arguments static.

    The same function gives the same compiled one, so that all who use it share its programs.
    """
    options: dict[str, Any] | None = None
    if jax.default_backend() == "cpu" and small_steps:
        options = _SEQUENTIAL_KERNELS
    elif jax.default_backend() == "gpu" and deterministic:
        options = _DETERMINISTIC
    return jax.jit(function, static_argnames=static, compiler_options=options)  # type: ignore[return-value]


def reproducible(*static: str) -> Callable[[F], F]:
    """Compile a function at its first call: at its definition the device may not be known yet."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return compiled(function, *static)(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
