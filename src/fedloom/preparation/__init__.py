"""Your own tables, one at each site, made into rows of numbers without pooling them.

1. Every site proposes what it has: its columns, whether they hold numbers or words, and the words
   (`proposals.py`). The proposal is a text; as messages are arrays of agreed shapes, it travels as
   bytes, padded to the longest one (`gathering.py`).
2. The hub agrees on a schema: the columns of all, the union of their words, the classes.
3. Counts, sums, and sums of squares about the common means go up and are added (`statistics.py`).
4. Every site encodes its own rows by the resulting `Preparation` (`encoding.py`).

Steps 1 and 3 are algorithms like all others, so they run on every engine. Schema and preparation go
down as settings do.
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
