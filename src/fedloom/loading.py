"""Reading saved results and models."""

from pathlib import Path

from fedloom.deploy.deployed import Deployed
from fedloom.deploy.deployed import load as load_model
from fedloom.measuring.result import Result
from fedloom.measuring.result import load as load_result


def load(path: str | Path) -> Result | Deployed:
    """Read a saved result from its folder, or a saved model from its file.

    The states in a result have the same fields as when they were saved, but not their classes.

    Args:
        path: A folder that `Result.save` or `fedloom run` wrote, or a file that `Deployed.save` or
            `fedloom export --to safetensors` wrote.
    """
    path = Path(path)
    return load_model(path) if path.is_file() else load_result(path)
