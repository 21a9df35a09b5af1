"""`make verify`: random federations and fresh processes, held against each other.

    python -m verification [--minutes 5] [--seed N] [--methods fedavg drfa] [--all] [--out verify]

Random federations: Hypothesis draws a method with its options, a problem, clients and wrappers; the
simulator must agree with the wire engine, with itself on other devices and after a stop, and with
the NumPy transcription of the listing where there is one. Fresh processes: the same program gives
the same bits in every process, whatever ran before it and whatever the cache of programs holds.
Before both, quickly: no two classes look alike to JAX, and the compiler agrees with NumPy.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The transcriptions and the laws' trials belong to the tests, and are not installed.
sys.path.insert(0, str(ROOT / "tests"))
