"""Flower's Simulation Runtime (`run_simulation`, on Ray): a PyTorch `ClientApp`, one core a client.

A Flower job starts Ray, runs all of its rounds and ends. Here the job is started once, in a thread,
and its `ServerApp` waits for orders, so that `run(rounds)` counts whole steady-state rounds: the
sampling, the messages, the training in Ray's actors and the averaging, but no start of Ray, of the
actors or of their data. CPU time and peak memory are of this process only, without the actors.
"""

import functools
import logging
import os
import queue
import threading

from benchmarks.timing import contest
from benchmarks.workloads import WORKLOADS, Workload, arrays

orders: queue.Queue[int] = queue.Queue()  # numbers of rounds; 0 ends the job


def prepare(w: Workload, cores: int | None):
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    # By its importable name: the actors then import it, and keep what it caches.
    from benchmarks.contestants.flower_simulation import train

    logging.getLogger("flwr").setLevel(logging.ERROR)
    outcomes: queue.Queue[Exception | None] = queue.Queue()
    client_app, server_app = ClientApp(), ServerApp()
    client_app.train()(train)

    @server_app.main()
    def serve(grid, context):
        strategy = FedAvg(
            fraction_train=w.cohort / w.clients,
            fraction_evaluate=0.0,
            min_train_nodes=w.cohort,
            min_available_nodes=w.clients,
            train_metrics_aggr_fn=lambda replies, key: MetricRecord({"replies": len(replies)}),
        )
        model = ArrayRecord(_network(w).state_dict())
        workload = ConfigRecord({"workload": w.name})
        while rounds := orders.get():
            result = strategy.start(grid, model, num_rounds=rounds, train_config=workload)
            replies = [m["replies"] for m in result.train_metrics_clientapp.values()]
            if replies != [w.cohort] * rounds:
                raise RuntimeError("clients failed")
            model = result.arrays
            outcomes.put(None)

    def simulate():
        try:
            run_simulation(
                server_app,
                client_app,
                num_supernodes=w.clients,
                backend_config={
                    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                    "init_args": {"logging_level": "ERROR", "log_to_driver": False},
                },
            )
        except Exception as error:
            outcomes.put(error)

    def run(rounds: int) -> None:
        orders.put(rounds)
        if error := outcomes.get():
            raise error

    threading.Thread(target=simulate).start()
    return run


def train(message, context):
    """One client's part of a round, in an actor."""
    import torch
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    w, network, loss, features, labels = _kept(message.content["config"]["workload"])
    network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(network.parameters(), w.lr)
    client = context.node_config["partition-id"]
    for rows in torch.randint(w.rows, (w.steps, w.batch)):
        optimiser.zero_grad()
        loss(network(features[client, rows]), labels[client, rows]).backward()
        optimiser.step()
    trained = ArrayRecord(network.state_dict())
    content = RecordDict({"arrays": trained, "metrics": MetricRecord({"num-examples": w.rows})})
    return Message(content, reply_to=message)


@functools.cache
def _kept(workload: str):
    """What an actor keeps from client to client."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.seed()  # each actor its own batches
    w = WORKLOADS[workload]
    x, y = arrays(w)
    features = torch.from_numpy(np.moveaxis(x, -1, 2) if w.is_image else x)
    labels = torch.from_numpy(y if w.is_image else y.astype(np.float32))
    loss = torch.nn.CrossEntropyLoss() if w.is_image else torch.nn.BCEWithLogitsLoss()
    return w, _network(w), loss, features, labels


def _network(w: Workload):
    from torch import nn

    if not w.is_image:
        return nn.Sequential(nn.Linear(w.features[0], 1, bias=False), nn.Flatten(0))
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(7 * 7 * 32, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


if __name__ == "__main__":
    try:
        contest(prepare)
    finally:
        orders.put(0)
