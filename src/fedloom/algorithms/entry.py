"""What the catalogue knows of a method."""

import dataclasses
from typing import Any

from fedloom.protocol import Algorithm


@dataclasses.dataclass(frozen=True, eq=False)
class MethodEntry:
    """A method and the facts about it that tests and users select by."""

    key: str
    cls: type[Algorithm]
    family: str
    paper: str
    solves: str  # the problem, in a line
    trial: dict[str, Any]  # small hyper-parameters with which the laws are tested
    kind: str = "smooth"  # the kind of problem that it takes
    deterministic: bool = False  # whether it draws nothing at all, whatever the batch size

    @property
    def name(self) -> str:
        """The class's name."""
        return self.cls.__name__

    def example(self) -> Algorithm:
        """The method with the hyper-parameters of the laws."""
        return self.cls(**self.trial)
