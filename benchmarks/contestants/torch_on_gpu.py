"""A plain PyTorch loop over clients, with rows and models on the card."""

from benchmarks.contestants.networks import in_torch
from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None):
    import copy

    import torch
    from torch.nn.functional import cross_entropy

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = arrays(w)
    x = torch.from_numpy(x).permute(0, 1, 4, 2, 3).contiguous().to(device)
    y = torch.from_numpy(y).to(device)
    model = in_torch(w.name).to(device)

    def run(rounds: int) -> None:
        for _ in range(rounds):
            trained = []
            for i in torch.randperm(w.clients)[: w.cohort].tolist():
                local = copy.deepcopy(model)
                optimiser = torch.optim.SGD(local.parameters(), w.lr)
                for _ in range(w.steps):
                    rows = torch.randint(0, w.rows, (w.batch,), device=device)
                    optimiser.zero_grad()
                    cross_entropy(local(x[i][rows]), y[i][rows]).backward()
                    optimiser.step()
                trained.append(local.state_dict())
            mean = {k: torch.stack([t[k] for t in trained]).mean(0) for k in trained[0]}
            model.load_state_dict(mean)
        if device.type == "cuda":
            torch.cuda.synchronize()

    return run


if __name__ == "__main__":
    contest(prepare)
