"""`fedloom`: the entry point, and what its exit status means.

0  done
1  ran, but failed: the iterates diverged, the doctor found a fault, or a method breaks a law
2  misuse: an error in the command, the settings or the data, which the user can fix
130  interrupted with Ctrl-C; what was done is kept
"""

import argparse
import errno
import importlib
import io
import sys
from collections.abc import Sequence
from typing import NamedTuple

from fedloom import version
from fedloom.cli.plain import PLAINLY
from fedloom.errors import DivergedError, FedloomError
from fedloom.hints import closest, printable


class Verb(NamedTuple):
    """The help text of a verb, and the function of a module that declares its options."""

    help: str
    module: str
    declare: str = "add"


VERBS = {
    "new": Verb("write a first settings file, method or federation", "new"),
    "run": Verb("run a settings file", "run"),
    "predict": Verb("predict new rows with the model of a run", "predict"),
    "export": Verb("export the model of a run to ONNX, PyTorch or one small file", "export"),
    "import-torch": Verb("import a PyTorch module as a network of fedloom", "import_torch"),
    "coefficients": Verb("show a linear model's coefficients by their columns", "coefficients"),
    "compare": Verb("compare the methods of a settings file", "compare"),
    "sweep": Verb("search for the best settings of each method", "sweep"),
    "report": Verb("make one HTML page from run folders", "report"),
    "reproduce": Verb("repeat an experiment of a paper", "reproduce"),
    "list": Verb(
        "show what settings files may name: algorithms, problems, datasets, metrics and more",
        "listing",
    ),
    "explain": Verb("explain a method, a wrapper, a metric or another part", "explain"),
    "schema": Verb("print the JSON Schema of settings files", "schema"),
    "demo": Verb("take a short tour on embedded data", "demo"),
    "check": Verb("test a method of your own against the laws that all methods keep", "check"),
    "completion": Verb("print a script with which a shell completes commands", "completion"),
    "doctor": Verb(
        "check versions, devices and folders, and solve problems with known answers", "doctor"
    ),
    "provision": Verb("make the kits of a federation", "provision"),
    "serve": Verb("run the server of a federation", "serve", "add_serve"),
    "join": Verb("take part in a federation with your own data", "serve", "add_join"),
    "submit": Verb("run a settings file over real sites", "submit", "add_submit"),
    "status": Verb("show which sites are connected, and the state of runs", "submit", "add_status"),
    "fetch": Verb("fetch the result of the last run", "submit", "add_fetch"),
    "budget": Verb("show how much a site's replies have disclosed, over all runs", "budget"),
    "try-federation": Verb(
        "try a federation of three sites on this machine, with TLS", "try_federation"
    ),
}
DONE, FAILED, MISUSE, INTERRUPTED = 0, 1, 2, 130


def parser(arguments: Sequence[str], *, every: bool = False) -> argparse.ArgumentParser:
    """All verbs, and the options of the one that is given (its module is loaded) or of `every`."""
    top = argparse.ArgumentParser(
        prog="fedloom", description="Federated optimisation beyond averaging."
    )
    top.add_argument("--version", action="version", version=f"fedloom {version.__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    # No option before the verb takes a value, so the verb is the first word that is no option.
    given = next((word for word in arguments if not word.startswith("-")), None)
    for name, verb in VERBS.items():
        options = verbs.add_parser(name, help=verb.help)
        if every or name == given:
            module = importlib.import_module(f"fedloom.cli.{verb.module}")
            getattr(module, verb.declare)(options)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAINLY)
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        parser(words).print_help(sys.stderr)
        return MISUSE
    if words and not words[0].startswith("-") and words[0] not in VERBS:
        hint = closest(words[0], VERBS, where="fedloom --help")
        print(f"error: there is no verb {words[0]!r}. {hint}", file=sys.stderr)
        return MISUSE
    try:
        chosen = parser(words).parse_args(words)  # which loads the verb's modules
        return chosen.handle(chosen)
    except DivergedError as error:
        print(printable(f"diverged: {error}"), file=sys.stderr)
        return FAILED
    except FedloomError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as in `fedloom list | head`
        sys.stderr.close()
        return DONE
    except OSError as error:
        where = error.filename2 or error.filename
        if where is None and error.errno != errno.ENOSPC:
            raise  # it is not about files
        said = f"{'' if where is None else f'{where}: '}{str(error.strerror).lower()}"
        print(printable(f"error: {said}. Check the place, or name another."), file=sys.stderr)
        return MISUSE


if __name__ == "__main__":
    sys.exit(main())
