"""`fedloom export RUN --to onnx|torch|safetensors`: a trained model for other tools."""

import argparse
from pathlib import Path

from fedloom.cli.trusting import add_trust
from fedloom.deploy.deployed import Deployed
from fedloom.experiments.taking import taken
from fedloom.files import free, writable_file

FORMATS = {
    "safetensors": (".safetensors", Deployed.save),
    "onnx": (".onnx", Deployed.export_onnx),
    "torch": ("-torch.safetensors", Deployed.export_torch),
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run, or a model")
    parser.add_argument(
        "--to",
        choices=tuple(FORMATS),
        required=True,
        help="safetensors: for fl.load; onnx: a graph for any runtime (needs fedloom[export]); "
        "torch: safetensors with PyTorch's names",
    )
    parser.add_argument("--site", metavar="SITE", help="export the model that this site uses")
    parser.add_argument("--out", type=Path, metavar="FILE", help="by default beside the model")
    add_trust(parser)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    suffix, write = FORMATS[arguments.to]
    folder = arguments.run if arguments.run.is_dir() else arguments.run.parent
    beside = folder / f"exported{_part(arguments.site)}{suffix}"
    out = writable_file(beside) if arguments.out is None else free(arguments.out)
    model = taken(arguments.run, site=arguments.site, trust=arguments.trust)
    write(model, out)
    said = "scores" if model.link is None else f"scores, which are of the kind {model.link!r}"
    print(f"{out}: takes {_shape(model)}, gives {model.outputs} {said}")
    if model.preparation is not None:
        print("how columns become features is inside; docs/taking-away.md shows how to apply it")
    if model.normalisation is not None:
        print(
            "normalise rows first: subtract the mean, divide by the deviation; the file contains "
            "both"
        )
    return 0


def _part(site: str | None) -> str:
    return "" if site is None else "-" + "".join(c if c.isalnum() else "-" for c in site)


def _shape(model: Deployed) -> str:
    return f"rows of {' x '.join(map(str, model.features))} features"
