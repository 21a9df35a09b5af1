"""An array that grows at its end and never needs twice its memory."""

import numpy as np
from numpy.typing import DTypeLike

_SPARE = 1.5  # of what is needed; memory that nobody has written to is not taken


class Growing:
    """Numbers that come piece by piece.

    `np.concatenate` holds all pieces and the whole array at once. Here the array is enlarged in
    place; the operating system moves a large one without a copy.
    """

    def __init__(self, dtype: DTypeLike):
        self._held = np.empty(0, dtype)
        self._used = 0

    def extend(self, numbers: np.ndarray) -> None:
        """Add numbers at the end."""
        needed = self._used + len(numbers)
        if needed > len(self._held):
            self._held.resize(int(_SPARE * needed), refcheck=False)
        self._held[self._used : needed] = numbers
        self._used = needed

    def array(self) -> np.ndarray:
        """The whole array; after this nothing more can be added."""
        self._held.resize(self._used, refcheck=False)
        return self._held
