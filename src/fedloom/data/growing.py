"""An array that grows at its end, in the memory that it needs and not twice that."""

import numpy as np
from numpy.typing import DTypeLike

_SPARE = 1.5  # of what is needed; memory that nobody has written to is not taken


class Growing:
    """Numbers that come piece by piece.

    `np.concatenate` holds all pieces and the whole at once. Here the whole is moved where it must
    be longer, which for large arrays the operating system does without a copy.
    """

    def __init__(self, dtype: DTypeLike):
        self._held = np.empty(0, dtype)
        self._used = 0

    def extend(self, numbers: np.ndarray) -> None:
        """Put numbers at the end."""
        needed = self._used + len(numbers)
        if needed > len(self._held):
            self._held.resize(int(_SPARE * needed), refcheck=False)
        self._held[self._used : needed] = numbers
        self._used = needed

    def array(self) -> np.ndarray:
        """All of them; nothing is put behind it any more."""
        self._held.resize(self._used, refcheck=False)
        return self._held
