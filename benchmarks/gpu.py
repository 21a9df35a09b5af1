"""W2 on an accelerator: client-rounds a second, one client's 20 steps of batch 32 being one.

    python -m benchmarks.gpu [--cohorts 10 50 100] [--rounds 20] [--torch]

Prints one JSON line a measurement: the rate, the time to the first round (compilation and
autotuning included), and the share of the stated arithmetic in the card's peak.
"""

import argparse
import json
import time

from benchmarks.workloads import WORKLOADS, arrays

# Multiplications and additions of one row, forward and backward (three times the forward pass).
FLOPS_PER_ROW = 3 * 2 * (28 * 28 * 9 * 16 + 14 * 14 * 144 * 32 + 1568 * 128 + 128 * 10)


def fedloom(cohort: int, rounds: int) -> dict[str, float]:
    """The full protocol, all clients of the cohort side by side."""
    import fedloom as fl

    w = WORKLOADS["W2"]
    x, y = arrays(w)
    clients = fl.data.from_arrays(list(zip(x, y, strict=True)))
    problem = fl.problems.Supervised(fl.models.CNN((16, 32), (128,)))
    method = fl.algorithms.FedAvg(lr=w.lr, local_steps=w.steps, cohort=cohort)
    settings = {
        "batch_size": w.batch, "eval_every": 10**9, "metrics": (), "deterministic": False,
    }  # fmt: skip
    began = time.perf_counter()
    first = fl.simulate(method, problem, clients, rounds=1, **settings)
    startup = time.perf_counter() - began
    result = fl.simulate(method, problem, clients, rounds=rounds + 1, resume=first, **settings)
    seconds = result.final["seconds"] - first.final["seconds"]
    return {"rate": cohort * rounds / seconds, "startup": startup}


def torch_loop(cohort: int, rounds: int) -> dict[str, float]:
    """A plain loop over clients, data and model on the card."""
    import torch
    from torch import nn

    w = WORKLOADS["W2"]
    x, y = arrays(w)
    device = torch.device("cuda")
    x = torch.from_numpy(x).permute(0, 1, 4, 2, 3).contiguous().to(device)
    y = torch.from_numpy(y).to(device)

    def network() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10),
        ).to(device)  # fmt: skip

    model, loss = network(), nn.CrossEntropyLoss()

    def run(rounds: int) -> None:
        for _ in range(rounds):
            trained = []
            for i in torch.randperm(w.clients)[:cohort].tolist():
                local = network()
                local.load_state_dict(model.state_dict())
                optimiser = torch.optim.SGD(local.parameters(), w.lr)
                for _ in range(w.steps):
                    rows = torch.randint(0, w.rows, (w.batch,), device=device)
                    optimiser.zero_grad()
                    loss(local(x[i][rows]), y[i][rows]).backward()
                    optimiser.step()
                trained.append(local.state_dict())
            mean = {k: torch.stack([t[k] for t in trained]).mean(0) for k in trained[0]}
            model.load_state_dict(mean)
        torch.cuda.synchronize()

    began = time.perf_counter()
    run(1)
    startup = time.perf_counter() - began
    began = time.perf_counter()
    run(rounds)
    return {"rate": cohort * rounds / (time.perf_counter() - began), "startup": startup}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--torch", action="store_true", help="also a plain PyTorch loop")
    chosen = parser.parse_args()
    w = WORKLOADS["W2"]
    contestants = {"fedloom": fedloom} | ({"torch loop": torch_loop} if chosen.torch else {})
    for cohort in chosen.cohorts:
        for name, measure in contestants.items():
            rounds = chosen.rounds if name == "fedloom" else 2
            figures = measure(cohort, rounds)
            gflops = figures["rate"] * w.steps * w.batch * FLOPS_PER_ROW / 1e9
            line = {"contestant": name, "cohort": cohort, **figures, "gflops": gflops}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
