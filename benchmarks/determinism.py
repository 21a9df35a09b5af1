"""Do fresh processes end with the same bits on this device, and what does it cost?

    python -m benchmarks.determinism [--processes 4] [--rounds 20] [--cohort 50]

For every way of compiling, processes that share no program cache train the same network with the
same seed. Prints one JSON line a way: how many different outcomes there were, client-rounds a
second, and the seconds to the first round, compilation and autotuning included.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

from benchmarks.workloads import WORKLOADS, arrays

# ways of compiling: flags of XLA, and whether fedloom is asked for deterministic programs
WAYS = {
    "default": ("", False),
    "no nondeterministic kernels": ("--xla_gpu_exclude_nondeterministic_ops=true", False),
    "no autotuning": ("--xla_gpu_autotune_level=0", False),
    "deterministic ops": ("--xla_gpu_deterministic_ops=true", False),
}
NETWORKS = ("logistic", "cnn", "wide")


def train(network: str, rounds: int, cohort: int) -> dict[str, object]:
    """One run in this process: a hash of the model, and how long it took."""
    import numpy as np

    import fedloom as fl

    w = WORKLOADS["W2"]
    x, y = arrays(w)
    clients = fl.data.from_arrays(list(zip(x, y, strict=True)))
    problem = {
        "logistic": fl.problems.Multinomial(),
        "cnn": fl.problems.Supervised(fl.models.CNN((16, 32), (128,))),
        "wide": fl.problems.Supervised(fl.models.CNN((64, 128), (512,))),
    }[network]
    if network == "logistic":
        clients = fl.data.from_arrays(
            [(a.reshape(len(a), -1), b) for a, b in zip(x, y, strict=True)]
        )
    method = fl.algorithms.FedAvg(lr=w.lr, local_steps=w.steps, cohort=cohort)
    settings = {"batch_size": w.batch, "eval_every": 10**9}
    began = time.perf_counter()
    first = fl.simulate(method, problem, clients, rounds=1, **settings)
    startup = time.perf_counter() - began
    result = fl.simulate(method, problem, clients, rounds=rounds + 1, resume=first, **settings)
    seconds = result.final["seconds"] - first.final["seconds"]
    digest = hashlib.sha256()
    for leaf in result.model.values() if isinstance(result.model, dict) else result.model:
        for array in leaf.values() if isinstance(leaf, dict) else [leaf]:
            digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "hash": digest.hexdigest()[:12],
        "rate": cohort * rounds / seconds,
        "startup": startup,
        "loss": result.final["loss"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--child")
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(train(chosen.child, chosen.rounds, chosen.cohort)))
        return
    for network in chosen.networks:
        for way in chosen.ways:
            flags, _ = WAYS[way]
            runs = []
            for _ in range(chosen.processes):
                environment = os.environ | {"FEDLOOM_CACHE": "off", "XLA_FLAGS": flags}
                command = [sys.executable, "-m", "benchmarks.determinism", "--child", network]
                command += ["--rounds", str(chosen.rounds), "--cohort", str(chosen.cohort)]
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode:
                    print(json.dumps({"network": network, "way": way, "error": done.stderr[-600:]}))
                    break
                runs.append(json.loads(done.stdout.splitlines()[-1]))
            else:
                line = {
                    "network": network,
                    "way": way,
                    "outcomes": len({run["hash"] for run in runs}),
                    "rate": statistics.median(run["rate"] for run in runs),
                    "startup": statistics.median(run["startup"] for run in runs),
                    "losses": sorted({run["loss"] for run in runs}),
                }
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
