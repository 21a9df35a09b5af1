"""One fresh process: some programs in a given order, and the hashes of what they computed.

python -m verification.process fedavg:simulator drfa:wire ...    prints a JSON object
"""

import hashlib
import json
import sys
from typing import Any

import jax
import numpy as np

from fedloom.algorithms.catalogue import entry
from fedloom.exchange.in_process import InProcess
from laws.trials import BATCH, case

ROUNDS = 2


def simulator(key: str) -> Any:
    """The states of hub and clients after a few rounds of the laws' trial."""
    return case(entry(key)).simulate(rounds=ROUNDS, metrics=()).state


def wire(key: str) -> Any:
    """The same on the wire engine."""
    tried = case(entry(key))
    with jax.enable_x64(True):
        network = InProcess(tried.method, *tried.trial, batch_size=BATCH, precision="float64")
        for _ in range(ROUNDS):
            network.step()
        return network.hub, [site.state for site in network.sites]


ENGINES = {"simulator": simulator, "wire": wire}


def sha256(tree: Any) -> str:
    """The hash of all arrays, with their names, types and shapes."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def hashes(programs: list[str]) -> dict[str, str]:
    """What each program computes, run one after the other."""
    found = {}
    for program in programs:
        key, engine = program.split(":")
        try:
            found[program] = sha256(ENGINES[engine](key))
        except Exception as error:
            # A program of another class may well fail: that is a finding, not a crash.
            found[program] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    print(json.dumps(hashes(sys.argv[1:])))
