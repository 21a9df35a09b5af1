"""What an exchange over a real federation costs: `python -m benchmarks.federation`.

A server and three sites as processes on loopback with TLS; FedAvg with one step a round on a model
of 2500 numbers, so that 10 kB go down and 10 kB come up at each site. What the work itself takes is
measured by the same run without a network.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from fedloom.data.clients import from_arrays
from fedloom.exchange.in_process import InProcess
from fedloom.experiments.locations import Location
from fedloom.experiments.settings import parse
from fedloom.federation.people import submission, trial
from fedloom.federation.processes import processes_of

SITES, NUMBERS = 3, 2500


def main(exchanges: int = 2000) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (rng.normal(size=(20, NUMBERS)).astype(np.float32), rng.normal(size=20))
        for _ in range(SITES)
    ]
    clients = from_arrays(rows, names=[f"site-{i}" for i in range(SITES)])
    chosen = parse(
        {
            "data": {"label": trial.LABEL, "regression": True},
            "problem": {"kind": "least_squares"},
            "algorithm": {"key": "fedavg", "lr": 1e-5, "local_steps": 1},
            "run": {"rounds": exchanges, "batch_size": "full", "eval_every": exchanges // 4},
            "federation": {"sites": list(clients.names)},
        },
        Location("benchmark", ""),
    )
    alone = work_alone(chosen, clients)
    with tempfile.TemporaryDirectory() as name:
        made = trial.build(
            Path(name) / "kits", clients, methods=["fedavg"], problems=["least_squares"]
        )
        with trial.up(made):
            watch = Watch(made)
            result = submission.follow(made.lead, chosen, Path(name) / "result", say=print)
            watch.stop()
    seconds = np.diff([row["seconds"] for row in result.rows]) / (exchanges // 4)
    print("ms an exchange, by quarter:", *(f"{1000 * s:.1f}" for s in seconds))
    print(f"the work itself, with encoding but no network: {1000 * alone:.1f} ms")
    watch.show()


def work_alone(chosen, clients, rounds: int = 200) -> float:
    network = InProcess(chosen.algorithm, chosen.problem, clients, batch_size=None)
    for _ in range(20):
        network.step()
    began = time.perf_counter()
    for _ in range(rounds):
        network.step()
    return (time.perf_counter() - began) / rounds


class Watch:
    """Threads and memory of the job's processes, looked at every second."""

    def __init__(self, made):
        self.kits = (made.server, *made.sites)
        self.seen: dict[str, list[tuple[int, float]]] = {kit.name: [] for kit in self.kits}
        self._ended = threading.Event()
        self._work = threading.Thread(target=self._look, daemon=True)
        self._work.start()

    def _look(self) -> None:
        while not self._ended.wait(1):
            for kit in self.kits:
                threads, memory = 0, 0.0
                for process in processes_of(kit):
                    try:
                        threads += process.num_threads()
                        memory += process.memory_info().rss / 1e6
                    except Exception:
                        continue
                self.seen[kit.name].append((threads, memory))

    def stop(self) -> None:
        self._ended.set()
        self._work.join()

    def show(self) -> None:
        for name, seen in self.seen.items():
            at = [int(part * (len(seen) - 1)) for part in (0.4, 0.55, 0.7, 0.85)]
            told = ", ".join(f"{seen[i][0]} threads {seen[i][1]:.0f} MB" for i in at)
            print(f"{name}: {told} (at 40, 55, 70 and 85 per cent of the time)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
