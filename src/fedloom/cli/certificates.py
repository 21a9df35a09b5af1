"""The warning on the command line about a kit's certificates."""

import sys

from fedloom.federation.kits import Kit
from fedloom.hints import needs


def warn_of_expiry(kit: Kit) -> None:
    """Tell the owner of a kit in time that its certificates expire."""
    needs("cryptography", "federate")
    from fedloom.federation.expiry import warning

    text = warning(kit)
    if text is not None:
        print(f"warning: {text}", file=sys.stderr, flush=True)
