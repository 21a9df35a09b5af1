"""`fedloom reproduce NAME`: an experiment of a paper, from the settings that come with fedloom."""

import argparse
from importlib import resources
from pathlib import Path

from fedloom.cli import compare
from fedloom.cli.methods_table import FORMATS
from fedloom.cli.output import show_table
from fedloom.cli.run import add_common, changes
from fedloom.errors import ParameterError
from fedloom.experiments import settings
from fedloom.hints import closest


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="without a name, shows what there is")
    add_common(parser, FORMATS)
    parser.set_defaults(handle=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    known = available()
    if arguments.name is None:
        show_table([{"name": name, "about": about(path)} for name, path in known.items()])
        return 0
    if arguments.name not in known:
        raise ParameterError(
            f"reproduce takes the name of an experiment; got {arguments.name!r}. "
            f"{closest(arguments.name, known)}"
        )
    chosen = settings.read(known[arguments.name], changes(arguments))
    return compare.run(chosen, arguments.out or Path("runs") / arguments.name, arguments.format)


def available() -> dict[str, Path]:
    """The settings files that come with fedloom."""
    folder = Path(str(resources.files("fedloom") / "reproductions"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def about(path: Path) -> str:
    """The first comment line of a settings file."""
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("#").strip()
