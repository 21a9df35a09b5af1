"""What was saved, read again."""

from pathlib import Path

from fedloom.deploy.deployed import Deployed
from fedloom.deploy.deployed import load as load_model
from fedloom.measuring.result import Result
from fedloom.measuring.result import load as load_result


def load(path: str | Path) -> Result | Deployed:
    """Read the folder of a saved result, or the file of a packed model.

    The states of a result come back with the same fields, without their classes.

    Args:
        path: A folder that `Result.save` or `fedloom run` wrote, or a file of `Deployed.save`.
    """
    path = Path(path)
    return load_model(path) if path.is_file() else load_result(path)
