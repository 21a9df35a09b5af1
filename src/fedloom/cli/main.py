"""`fedloom`: the entry point, and what its exit status means.

0  done
1  ran, but failed: the iterates diverged, the doctor found a fault, or a method breaks a law
2  misuse: an error in the command, the settings or the data, which the user can mend
130  interrupted with Ctrl-C; what was done is kept
"""

import argparse
import sys
from collections.abc import Sequence

from fedloom import version
from fedloom.cli import (
    budget,
    check,
    compare,
    demo,
    doctor,
    explain,
    listing,
    predict,
    provision,
    report,
    reproduce,
    run,
    schema,
    serve,
    submit,
    sweep,
    try_federation,
)
from fedloom.errors import DivergedError, FedloomError

_VERBS = (
    *(run, predict, compare, sweep, report, reproduce, listing, explain, schema, demo),
    *(check, doctor),
    *(provision, serve, submit, budget, try_federation),
)
DONE, FAILED, MISUSE, INTERRUPTED = 0, 1, 2, 130


def parser() -> argparse.ArgumentParser:
    """All verbs with their options."""
    top = argparse.ArgumentParser(
        prog="fedloom", description="Federated optimisation beyond averaging."
    )
    top.add_argument("--version", action="version", version=f"fedloom {version.__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for module in _VERBS:
        module.add(verbs)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    chosen = parser().parse_args(arguments)
    try:
        return chosen.handle(chosen)
    except DivergedError as error:
        print(f"diverged: {error}", file=sys.stderr)
        return FAILED
    except FedloomError as error:
        print(f"error: {error}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as in `fedloom list | head`
        sys.stderr.close()
        return DONE


if __name__ == "__main__":
    sys.exit(main())
