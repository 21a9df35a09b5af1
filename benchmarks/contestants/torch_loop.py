"""A plain PyTorch loop over clients, with a DataLoader each, on all cores."""

from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None, channels_last: bool = False):
    import copy
    import os

    import numpy as np
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(cores or os.cpu_count() or 1)
    x, y = arrays(w)
    if w.is_image:
        x = np.moveaxis(x, -1, 2)
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(7 * 7 * 32, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
        loss = nn.CrossEntropyLoss()
        labels = torch.from_numpy(y).long()
    else:
        model = nn.Sequential(nn.Linear(w.features[0], 1, bias=False), nn.Flatten(0))
        loss = nn.BCEWithLogitsLoss()
        labels = torch.from_numpy(y).float()
    data = torch.from_numpy(x)
    if channels_last:
        if not w.is_image:
            raise SystemExit("rows without channels have no such layout")
        model = model.to(memory_format=torch.channels_last)
    loaders = [
        DataLoader(TensorDataset(data[i], labels[i]), w.batch, shuffle=True)
        for i in range(w.clients)
    ]
    rng = np.random.default_rng(1)

    def run(rounds: int) -> None:
        for _ in range(rounds):
            total = None
            for i in rng.choice(w.clients, w.cohort, replace=False):
                local = copy.deepcopy(model)
                optimiser = torch.optim.SGD(local.parameters(), w.lr)
                taken = 0
                while taken < w.steps:
                    for xb, yb in loaders[i]:
                        if channels_last:
                            xb = xb.to(memory_format=torch.channels_last)
                        optimiser.zero_grad()
                        loss(local(xb), yb).backward()
                        optimiser.step()
                        taken += 1
                        if taken == w.steps:
                            break
                state = local.state_dict()
                total = state if total is None else {k: total[k] + state[k] for k in state}
            model.load_state_dict({k: v / w.cohort for k, v in total.items()})

    return run


if __name__ == "__main__":
    contest(prepare)
