"""Networks from PyTorch on an accelerator: client-rounds a second, 20 steps of batch 32 being one.

    python -m benchmarks.networks [--networks resnet18 transformer] [--clients 10 100] [--out FILE]

Three ways to train the same module at every client and to average: fedloom with the imported graph,
a plain PyTorch loop over the clients, and torch.func's vmap over all of them. Prints one JSON line
each: the rate, the seconds to the first round, and the arithmetic as PyTorch counts it. A way that
does not fit the card says so. Needs torch, and torchvision for its ResNet.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS, STEPS, BATCH, CLASSES = 300, 20, 32, 10
LR = 0.01
WORDS, LENGTH = 1000, 64


def resnet18() -> tuple[Any, np.ndarray]:
    """torchvision's ResNet-18 with group norms, and rows for it."""
    from torch import nn
    from torchvision.models import resnet18

    module = resnet18(num_classes=CLASSES, norm_layer=lambda width: nn.GroupNorm(32, width))
    return module, np.random.default_rng(0).random((ROWS, 3, 32, 32), np.float32)


def transformer() -> tuple[Any, np.ndarray]:
    """Six layers over 64 words, and rows for them."""
    import torch
    from torch import nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 128)
            self.places = nn.Parameter(torch.randn(LENGTH, 128) / 10)
            layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
            self.head = nn.Linear(128, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(self.words(x) + self.places).mean(1))

    return Reader(), np.random.default_rng(0).integers(0, WORDS, (ROWS, LENGTH))


NETWORKS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "resnet18": resnet18,
    "transformer": transformer,
}


def labels() -> np.ndarray:
    """Of a client's rows."""
    return np.random.default_rng(1).integers(0, CLASSES, ROWS)


def flops_per_row(module: Any, x: np.ndarray) -> float:
    """Of a step, as PyTorch counts: forward and backward."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        module(torch.from_numpy(x[:BATCH])).sum().backward()
    return counter.get_total_flops() / BATCH


def fedloom(network: str, clients: int, rounds: int) -> tuple[float, float]:
    """The full protocol on the imported graph."""
    import torch

    import fedloom as fl

    module, x = NETWORKS[network]()
    graph = fl.models.from_torch(module, torch.from_numpy(x[:2]))
    held = fl.data.from_arrays([(x, labels())] * clients)
    problem = fl.problems.Supervised(graph)
    method = fl.algorithms.FedAvg(lr=LR, local_steps=STEPS)
    settings = {"batch_size": BATCH, "eval_every": 10**9, "metrics": (), "deterministic": False}
    began = time.perf_counter()
    first = fl.simulate(method, problem, held, rounds=1, **settings)
    startup = time.perf_counter() - began
    result = fl.simulate(method, problem, held, rounds=rounds + 1, resume=first, **settings)
    return startup, result.final["seconds"] - first.final["seconds"]


def _timed(run: Callable[[], None], rounds: int) -> tuple[float, float]:
    import torch

    seconds = []
    for count in (1, rounds):
        began = time.perf_counter()
        for _ in range(count):
            run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1]


def torch_loop(network: str, clients: int, rounds: int) -> tuple[float, float]:
    """A loop over the clients, data and model on the card."""
    import torch
    from torch.nn.functional import cross_entropy

    module, x = NETWORKS[network]()
    module, x, y = module.cuda(), torch.from_numpy(x).cuda(), torch.from_numpy(labels()).cuda()
    if x.ndim == 4:
        module, x = (t.to(memory_format=torch.channels_last) for t in (module, x))

    def run() -> None:
        trained = []
        for _ in range(clients):
            local = copy.deepcopy(module)
            optimiser = torch.optim.SGD(local.parameters(), LR)
            for _ in range(STEPS):
                rows = torch.randint(0, ROWS, (BATCH,), device="cuda")
                optimiser.zero_grad()
                cross_entropy(local(x[rows]), y[rows]).backward()
                optimiser.step()
            trained.append([p.detach() for p in local.parameters()])
        with torch.no_grad():
            for own, *others in zip(module.parameters(), *trained, strict=True):
                own.copy_(torch.stack(others).mean(0))

    return _timed(run, rounds)


def torch_vmap(network: str, clients: int, rounds: int) -> tuple[float, float]:
    """All clients at once by torch.func."""
    import torch
    from torch.func import functional_call, grad, vmap
    from torch.nn.functional import cross_entropy

    module, x = NETWORKS[network]()
    module, x, y = module.cuda(), torch.from_numpy(x).cuda(), torch.from_numpy(labels()).cuda()
    model = {name: p.detach() for name, p in module.named_parameters()}

    def loss(own: Any, x: Any, y: Any) -> Any:
        return cross_entropy(functional_call(module, own, (x,)), y)

    step = vmap(grad(loss), randomness="different")

    def run() -> None:
        own = {k: v.expand(clients, *v.shape).contiguous() for k, v in model.items()}
        for _ in range(STEPS):
            rows = torch.randint(0, ROWS, (clients, BATCH), device="cuda")
            slopes = step(own, x[rows], y[rows])
            own = {k: own[k] - LR * slopes[k] for k in own}
        model.update({k: v.mean(0) for k, v in own.items()})

    return _timed(run, rounds)


WAYS = {"fedloom": fedloom, "torch loop": torch_loop, "torch vmap": torch_vmap}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--rounds", type=int, default=5, help="that a way is timed over")
    parser.add_argument("--out", type=Path, help="a file that gets the lines as well")
    chosen = parser.parse_args()
    for network in chosen.networks:
        flops = flops_per_row(*NETWORKS[network]())
        for clients in chosen.clients:
            for way in chosen.ways:
                about = {"network": network, "clients": clients, "way": way}
                try:
                    startup, seconds = WAYS[way](network, clients, chosen.rounds)
                except Exception as error:  # of three libraries, mostly a card that is too small
                    line = about | {"failed": f"{type(error).__name__}: {error}"[:200]}
                else:
                    rate = clients * chosen.rounds / seconds
                    work = rate * STEPS * BATCH * flops / 1e12
                    line = about | {"rate": rate, "startup": startup, "tflops": work}
                print(json.dumps(line), flush=True)
                if chosen.out:
                    with chosen.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
