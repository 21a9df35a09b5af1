"""Small networks of PyTorch as files, with what PyTorch computes: `python -m tools.graphs`.

Writes tests/graphs/NAME.safetensors, the network, and NAME-expected.safetensors: rows `x`, the
outputs, weights of the outputs, and the gradient of the weighted sum for each trained array. Of
batch norms that are trained there are also `labels`, and what PyTorch's steps make of the arrays.
The tests compare with them where there is no PyTorch.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import fedloom as fl
from fedloom.models.graph.norms import settled
from tools.architectures import HUGGING_FACE, SMALL, Case, built

FOLDER = Path(__file__).parents[1] / "tests" / "graphs"
Expected = dict[str, np.ndarray]
LR, STEPS = 0.1, 5  # of training; the momentum of PyTorch's batch norms is 0.1 as well


def expected(case: Case) -> Expected:
    """Rows, outputs, weights of the outputs, and gradients, by PyTorch."""
    import torch

    module = settled(case.module, case.norm).eval()
    outputs = module(case.x)
    outputs = getattr(outputs, "logits", outputs)
    weights = torch.randn_like(outputs)
    module.zero_grad()
    (outputs * weights).sum().backward()
    found = {"x": case.x, "outputs": outputs.detach(), "weights": weights}
    found |= {
        f"gradient:{name}": parameter.grad
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    if case.norm == "local":
        labels = torch.arange(len(case.x)) % outputs.shape[1]
        found |= {"labels": labels} | _trained(module, case.x, labels)
    return {name: np.array(tensor.numpy(), order="C") for name, tensor in found.items()}


def _trained(module: Any, x: Any, labels: Any) -> dict[str, Any]:
    """What steps of gradient descent leave, with batch norms that learn."""
    import torch

    optimiser = torch.optim.SGD(module.train().parameters(), LR)
    for _ in range(STEPS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(x), labels).backward()
        optimiser.step()
    state = {n: a for n, a in module.state_dict().items() if a.is_floating_point()}
    return {f"trained:{name}": tensor for name, tensor in state.items()}


def main(names: list[str]) -> None:
    """Write the files of some networks, or of all."""
    for name in names or [*SMALL, *HUGGING_FACE]:
        case = built(name)
        graph = fl.models.from_torch(case.module, case.x[:1], norm=case.norm)
        graph.save(FOLDER / f"{name}.safetensors")
        save_file(expected(case), FOLDER / f"{name}-expected.safetensors")
        print(f"{name}: {len(graph.held.program.nodes)} operations")


if __name__ == "__main__":
    main(sys.argv[1:])
