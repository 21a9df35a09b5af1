"""`fedloom run --hosts`: how a process finds the others with which it computes one run."""

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax

from fedloom.errors import FedloomError, HostsError
from fedloom.simulator import hosts

_ASK = "ask"  # the scheduler, by what it has put into the environment
_FORM = "ADDRESS:PORT,COUNT,INDEX"
_OPEN_MPI = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
_COUNTED = (_OPEN_MPI, ("SLURM_NTASKS", "SLURM_PROCID"))  # how many processes, and which is this
# What JAX needs to find the address too. Open MPI 5 tells everything but that.
_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
_FOUND = (_SLURM, (*_OPEN_MPI, "OMPI_MCA_orte_hnp_uri"))


class Place(NamedTuple):
    """Where process 0 listens, how many processes there are, and which of them this is."""

    address: str
    processes: int
    process: int


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--hosts",
        nargs="?",
        const=_ASK,
        metavar=_FORM,
        help="compute the run in several processes, each started with this option: under Slurm and "
        "Open MPI 4 without a value, under Open MPI 5 with ADDRESS:PORT of process 0, and by hand "
        "also with the number of processes and the index of this one, from 0",
    )


@contextlib.contextmanager
def joined(given: str | None) -> Iterator[bool]:
    """Join the other processes, where there are any; whether this one speaks for all."""
    if given is None:
        yield True
        return
    join(given, os.environ)
    if not hosts.leads():
        warnings.simplefilter("ignore")
    try:
        with _output_for_results():
            yield hosts.leads()
    except (FedloomError, KeyboardInterrupt):
        raise  # of which all have heard
    except BaseException:
        # The others wait for this process, and JAX would wait for them before it ends.
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


@contextlib.contextmanager
def _output_for_results() -> Iterator[None]:
    """Send what libraries print to standard error: Gloo says on standard output whom it found."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def join(given: str, environment: Mapping[str, str]) -> None:
    """Start `jax.distributed` by what was given, and else by what the environment says."""
    place = None if given == _ASK else read(given, environment)
    if place is None and not any(set(names) <= environment.keys() for names in _FOUND):
        raise HostsError(
            f"--hosts: neither Slurm nor Open MPI 4 has started this process, so that it does not "
            f"know the others. Start it with srun or mpirun, or give --hosts {_FORM}, such as "
            f"--hosts 10.0.0.1:4321,2,0 in the first of two processes."
        )
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # it would hide SIGTERM from us
    try:
        if place is None:
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(place.address, place.processes, place.process)
    except (RuntimeError, ValueError) as error:
        raise HostsError(
            f"--hosts: the processes did not find each other: {error}. Check that all were "
            f"started, that the address is that of process 0, and that its port is free and open."
        ) from error


def read(given: str, environment: Mapping[str, str]) -> Place:
    """What stands behind `--hosts`, filled in from the environment where that counts processes."""
    address, *numbers = given.split(",")
    if not numbers:
        known = [names for names in _COUNTED if set(names) <= environment.keys()]
        numbers = [environment[name] for name in known[0]] if known else []
    host, _, port = address.rpartition(":")
    right = bool(host) and port.isdecimal() and 0 < int(port) < 2**16 and len(numbers) == 2
    if not right or not all(number.isdecimal() for number in numbers):
        raise HostsError(
            f"--hosts must be {_FORM}, with the address of process 0, the number of processes and "
            f"the index of this one; got {given!r}. Write --hosts 10.0.0.1:4321,2,0; alone, it "
            f"stands behind SETTINGS.toml."
        )
    count, index = map(int, numbers)
    if count < 1:
        raise HostsError(
            f"--hosts: the number of processes must be a whole number >= 1; got {count}. Count "
            f"all that are started."
        )
    if not index < count:
        raise HostsError(
            f"--hosts: the index must be a whole number from 0 to {count - 1}, one less than the "
            f"{count} processes; got {index}. Give each process an index of its own."
        )
    return Place(address, count, index)
