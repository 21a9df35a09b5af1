"""The datasets that fedloom knows by name: what they are, whose, and where they lie.

Checksums are of unpacked files, unless a file is marked as packed. A file without a published
checksum has to be fetched by hand.
"""

import functools

from fedloom.data.bundled import BUNDLED, read_bundled
from fedloom.data.entries import Copy, DatasetEntry
from fedloom.data.heart import read_heart
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

_HEART = DatasetEntry(
    "heart",
    "heart disease at four hospitals (Cleveland, Budapest, Zurich and Basel, Long Beach): 740 "
    "patients, 15 features; partition 'client' gives each hospital its own. "
    "By A. Janosi, W. Steinbrunn, M. Pfisterer and R. Detrano, CC BY 4.0",
    "CC BY 4.0; comes with fedloom",
    "https://doi.org/10.24432/C52P4X",
    (Copy((), read_heart, options=("missing",)),),
)

CATALOGUE: dict[str, DatasetEntry] = {  # the public datasets by the names that `load` takes
    entry.name: entry for entry in (_HEART, *TABLES, *IMAGES, *TEXTS, *_BUNDLED)
}
