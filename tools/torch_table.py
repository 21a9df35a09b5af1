"""The table of imported architectures: `python -m tools.torch_table [--out FOLDER] [NAME ...]`.

Writes torch.jsonl, a line for each network, and torch.md, the table. Errors are the largest
difference from PyTorch, in float32, over the largest number of PyTorch's.
"""

import argparse
import datetime
import json
import platform
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import fedloom as fl
from tools.architectures import HUGGING_FACE, LARGE, SMALL, built
from tools.graphs import expected

FOLDER = Path(__file__).parents[1] / "docs" / "verification"
TITLES = {
    "mlp": "dense layers with dropout (off)",
    "dropouts": "nn.GRU, attention and nn.Dropout1d with dropout (in evaluation)",
    "convolutions": "CNN: strides, dilation, groups, depthwise, poolings, group norm",
    "unet": "U-Net: transposed convolution, nearest and bilinear resizing",
    "frozen_norms": 'CNN with batch norm, `norm="frozen"`',
    "group_norms": 'CNN with batch norm, `norm="group"`',
    "local_norms": 'CNN with batch norm, `norm="local"` (in evaluation)',
    "lstm": "nn.LSTM, two layers, both directions",
    "gru": "nn.GRU, two layers, both directions",
    "rnn": "nn.RNN, two layers, both directions",
    "encoder": "nn.TransformerEncoder, two layers",
    "bert": "Hugging Face BERT, small",
    "vit": "Hugging Face ViT, small",
    "gpt2": "Hugging Face GPT-2, small, tied weights",
    "bert_lora": "BERT with PEFT's LoRA",
    "vit_lora": "ViT with PEFT's LoRA",
    "resnet18": 'torchvision ResNet-18, `norm="group"`',
    "mobilenet_v2": 'torchvision MobileNetV2, `norm="group"`',
}


def measured(name: str) -> dict[str, Any]:
    """One network: errors of outputs and gradients, and whether clients side by side agree."""
    case = built(name)
    graph = fl.models.from_torch(case.module, case.x[:1], norm=case.norm)
    known = expected(case)
    x = jnp.asarray(known["x"])
    arrays = {key: jnp.asarray(value) for key, value in graph.held.trained.items()}

    @jax.jit
    def both(arrays: Any, graph: Any) -> Any:
        def weighted(arrays: Any) -> Any:
            outputs = graph.apply(arrays, x)
            return (outputs * known["weights"]).sum(), outputs

        return jax.grad(weighted, has_aux=True)(arrays)

    slopes, outputs = both(arrays, graph)
    pairs = {key: known[f"gradient:{key}"] for key in slopes if f"gradient:{key}" in known}
    largest = max(np.abs(value).max() for value in pairs.values())
    stacked = jax.tree.map(lambda a: jnp.stack([a, 0.9 * a]), arrays)
    side_by_side = jax.vmap(both, (0, None))(stacked, graph)[1]
    alone = both(jax.tree.map(lambda a: 0.9 * a, arrays), graph)[1]
    held = graph.held
    return {
        "network": name,
        "output_error": _error(outputs, known["outputs"]),
        "gradient_error": max(
            float(np.abs(slopes[key] - value).max() / largest) for key, value in pairs.items()
        ),
        "side_by_side_error": _error(side_by_side[1], alone),
        "operations": sorted({node.operation for node in held.program.nodes}),
        "nodes": len(held.program.nodes),
        "trained": int(sum(a.size for a in held.trained.values())),
        "frozen": int(sum(a.size for a in held.frozen.values())),
        "characters": len(held.program.text),
    }


def _error(ours: Any, theirs: Any) -> float:
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max() / np.abs(theirs).max())


def page(lines: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    versions = f"torch {torch.__version__}, jax {jax.__version__}, Python"
    used = sorted({operation for line in lines for operation in line["operations"]})
    rows = [
        f"| {TITLES[line['network']]} | {line['output_error']:.0e} | {line['gradient_error']:.0e} "
        f"| {line['side_by_side_error']:.0e} | {len(line['operations'])} | {line['trained']:,} of "
        f"{line['trained'] + line['frozen']:,} | {line['characters'] / 1000:.1f} kB |"
        for line in lines
    ]
    return "\n".join(
        [
            "# PyTorch modules that were imported",
            "",
            f"Made by `python -m tools.torch_table` on {datetime.date.today():%d %B %Y} "
            f"({versions} {platform.python_version()}, CPU, float32); the networks are in "
            f"`tools/architectures.py`, the raw numbers in `torch.jsonl`. Errors are the largest "
            f"difference from PyTorch over the largest number of PyTorch's: of outputs, and of "
            f"gradients of a weighted sum of the outputs. Side by side is one of two clients under "
            f"`vmap` against the same client alone; every network of the table can be mapped so. "
            f"torchvision's networks were built without its compiled operators, which they do not "
            f"use.",
            "",
            "| network | outputs | gradients | side by side | operations | trained | program |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            f"The {len(used)} operations in them:",
            "",
            ", ".join(f"`{name}`" for name in used) + ".",
            "",
        ]
    )


def main() -> None:
    """Measure some networks, or all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TITLES))
    parser.add_argument("--out", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    lines = []
    for name in arguments.names:
        lines.append(measured(name))
        print(json.dumps({k: v for k, v in lines[-1].items() if k != "operations"}), flush=True)
    (arguments.out / "torch.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (arguments.out / "torch.md").write_text(page(lines))


assert set(TITLES) <= {*SMALL, *HUGGING_FACE, *LARGE}

if __name__ == "__main__":
    main()
