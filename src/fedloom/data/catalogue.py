"""The datasets that fedloom knows by name: what they are, whose, and where they lie.

Checksums are of unpacked files, unless a file is marked as packed. A file without a published
checksum has to be fetched by hand.
"""

import functools

from fedloom.data.bundled import BUNDLED, read_bundled
from fedloom.data.entries import Copy, DatasetEntry
from fedloom.data.public_images import IMAGES
from fedloom.data.public_tables import TABLES
from fedloom.data.public_texts import TEXTS

_BUNDLED = tuple(
    DatasetEntry(
        name,
        description,
        "comes with scikit-learn (BSD-3)",
        "scikit-learn",
        (Copy((), functools.partial(read_bundled, name)),),
    )
    for name, description in BUNDLED.items()
)

CATALOGUE: dict[str, DatasetEntry] = {  # the public datasets by the names that `load` takes
    entry.name: entry for entry in (*TABLES, *IMAGES, *TEXTS, *_BUNDLED)
}
