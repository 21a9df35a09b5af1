"""Your own tables, one at each site, turned into rows of numbers without pooling them.

1. Every site proposes a schema of its table: its columns, whether they hold numbers or words, and
   the words (`proposals.py`). The proposal is a text; since messages are arrays of known shapes, it
   is sent as bytes, padded to the length of the longest one (`gathering.py`).
2. The hub makes one schema of them: the columns of all, the union of their words, the classes.
3. Every site sends counts and sums, then sums of squares about the common means, and the hub adds
   them up (`statistics.py`).
4. Every site encodes its own rows by the resulting `Preparation` (`encoding.py`).

Steps 1 and 3 are algorithms like all others, so they run on every engine. The schema and the
preparation are sent to the sites in the same way as settings.
"""

from typing import TYPE_CHECKING

from fedloom.lazy import public
from fedloom.preparation.encoding import Preparation
from fedloom.preparation.files import SiteFiles
from fedloom.preparation.fitting import prepare
from fedloom.preparation.frames import from_frames
from fedloom.preparation.joining import Joining
from fedloom.preparation.party_files import PartyFiles
from fedloom.preparation.tables import SiteTable

__all__ = [
    "Joining",
    "PartyFiles",
    "Preparation",
    "SiteFiles",
    "SiteTable",
    "from_frames",
    "prepare",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
