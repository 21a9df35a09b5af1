"""A PyTorch module over unlike clients, then with its first layer frozen; needs torch."""

import torch
from torch import nn

import fedloom as fl


def build() -> nn.Module:
    """A small convolutional network, as for `fedloom import-torch`."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Flatten()),
        nn.Linear(256, 10),
    )


module = build()
clients = fl.data.partition(
    fl.data.load("digits"), "label", clients=10, classes_each=3, test_fraction=0.2
)
method = fl.algorithms.Scaffold(lr=0.05, local_steps=10)


def trained(module: nn.Module, rounds: int) -> fl.Result:
    """The module as a network, trained by the clients."""
    network = fl.models.from_torch(module, torch.zeros(1, 1, 8, 8))
    problem = fl.problems.Supervised(network)
    return fl.simulate(method, problem, clients, rounds=rounds, batch_size=16)


result = trained(module, rounds=60)
print(result.final["accuracy"], result.final["accuracy_worst"], result.final["bytes_up"])

module = result.to_torch(build())
module[0].requires_grad_(False)  # from here on it is neither sent nor averaged
tuned = trained(module, rounds=20)
print(tuned.final["accuracy"], tuned.final["accuracy_worst"], tuned.final["bytes_up"])

with torch.no_grad():
    images = torch.tensor(clients.test_of(0).x, dtype=torch.float32).reshape(-1, 1, 8, 8)
    print(tuned.to_torch(module).eval()(images).argmax(1)[:10], clients.test_of(0).y[:10])
